"""Importing the package imports nothing optional, it works without, and what is missing is named."""

from __future__ import annotations

import ast
import json
import os
import resource
import sys
from pathlib import Path

import pytest

import overlimit
from overlimit.limits import ALGORITHMS
from programs import output_of, run_without

WEB = "django rest_framework flask flask_login httpx requests aiohttp"
METRICS = "prometheus_client opentelemetry"
OPTIONAL = f"{WEB} {METRICS} click rich redis numpy pandas pyarrow matplotlib tqdm backports.zstd ipywidgets"
EVENTS = "from overlimit.simulation import Events, explore, read_log, traffic;"


def printed(hidden: str, program: str) -> str:
    done = run_without(hidden, program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_optional_and_it_works_without():
    program = f"""
import overlimit, overlimit.errors, overlimit.limits
assert "overlimit._core" in sys.modules
assert not [name for name in {OPTIONAL.split()} if name in sys.modules]
print([bool(limiter.hit("a")) for limiter in [overlimit.Limiter("2/hour")] for _ in range(3)])
"""
    for hidden in ("", OPTIONAL):
        assert printed(hidden, program) == "[True, True, False]\n"


def test_importing_the_package_loads_few_modules_and_none_that_loads_openssl():
    program = """
import json, sys
before = set(sys.modules)
import overlimit
loaded = set(sys.modules) - before
print(json.dumps([sorted(name for name in loaded if name.startswith("overlimit")), sorted(loaded)]))
"""
    ours, all_of_them = json.loads(output_of(program))
    assert "overlimit.limiter" in ours
    assert len(ours) <= 48 + len(ALGORITHMS)
    assert len(all_of_them) - len(ours) <= 60
    assert not {"ssl", "_ssl", "_hashlib", "asyncio", "subprocess", "email", "http"} & set(all_of_them)


IN_ANOTHER_INTERPRETER = """
    import sys
    (kind,) = sys.argv[1:]
    if sys.version_info < (3, 13):
        import _xxsubinterpreters as interpreters
        def told(other, code):
            try:
                interpreters.run_string(other, code)
            except interpreters.RunFailedError as refused:
                return str(refused)
        create = lambda: interpreters.create(isolated=kind == "isolated")
    else:
        import _interpreters as interpreters
        def told(other, code):
            refused = interpreters.exec(other, code)
            return f"{refused.type.__name__} {refused.msg}"
        create = lambda: interpreters.create(kind)
    if main_has_it:
        import overlimit
        limiter = overlimit.Limiter("5/hour")
    for module in 2 * ["overlimit", "overlimit._core", "overlimit.wsgi"]:
        other = create()
        print(told(other, f"import {module}"))
        interpreters.destroy(other)
    import overlimit
    print((limiter if main_has_it else overlimit.Limiter("5/hour")).hit("a").remaining)
"""


@pytest.mark.parametrize("kind", ["legacy", "isolated"])
@pytest.mark.parametrize("main_has_it", [False, True])
def test_another_interpreter_of_the_process_is_told_what_to_set(kind, main_has_it):
    program = IN_ANOTHER_INTERPRETER.replace("main_has_it", str(main_has_it))
    *told, after = output_of(program, kind).splitlines()
    assert len(told) == 6
    for each in told:
        assert "ImportError" in each
        assert "overlimit works in the main interpreter of a process only" in each
        assert "'WSGIApplicationGroup %{GLOBAL}'" in each
        assert "'single-interpreter = true'" in each
    assert after == "4"


def test_no_module_takes_of_a_package_above_it_anything_but_modules():
    # Such an import would close a cycle that the contracts in pyproject.toml do not see.
    package = Path(overlimit.__file__).parent
    for path in package.rglob("*.py"):
        above = [each for each in path.parents if each.is_relative_to(package)]
        if path.name == "__init__.py":
            del above[0]
        folders = {".".join(each.relative_to(package.parent).parts): each for each in above}
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not {each.name for each in node.names} & set(folders), path
            elif isinstance(node, ast.ImportFrom) and node.module in folders:
                there = {each.stem for each in folders[node.module].iterdir()} | {"_core"}
                assert {each.name for each in node.names} <= there, path


def cpu_seconds(program: str) -> float:
    """Return the least that the program takes in five runs, the interpreter's start included."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output_of(program)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


@pytest.mark.longer_in_prove
def test_importing_the_package_takes_little_more_than_importing_json_and_ssl():
    taken = cpu_seconds("import json, ssl, overlimit") - cpu_seconds("import json, ssl")
    assert 0.0 < taken <= (0.06 if "PROVE" in os.environ else 0.6)


@pytest.mark.parametrize(
    ("missing", "module", "told"),
    [
        ("flask", "flask", "needs Flask 2.3 or later, with blinker: pip install 'overlimit[flask]'"),
        ("blinker", "flask", "needs Flask 2.3 or later, with blinker: pip install 'overlimit[flask]'"),
        ("django", "django", "needs Django 4.2 or later: pip install 'overlimit[django]'"),
        ("rest_framework", "django.drf", "needs Django REST framework: pip install 'overlimit[drf]'"),
        ("fastapi", "fastapi", "needs FastAPI 0.100 or later: pip install 'overlimit[fastapi]'"),
    ],
)
def test_a_framework_is_named_where_it_is_missing(missing, module, told):
    assert told in run_without(missing, f"import overlimit.{module}").stderr.splitlines()[-1]


def test_neither_the_package_nor_the_middleware_of_wsgi_loads_asyncio():
    program = "import sys, overlimit, overlimit.wsgi; print('asyncio' in sys.modules)"
    assert printed("", program).strip() == "False"


NEEDS = {
    "Events([1], ['a']).to_pandas()": "pandas",
    "read_log('examples/shop_day.log.gz', where='True')": "pandas",
    "read_log('pyproject.toml', 'parquet')": "pyarrow",
    "read_log(sys.argv[1])": "backports.zstd",
    "explore(Events([1], ['a']))": "ipywidgets",
    "read_log('pyproject.toml', progress=True)": "tqdm",
}
if sys.version_info >= (3, 14):
    del NEEDS["read_log(sys.argv[1])"]  # for which Python has what it needs


def test_what_simulations_need_is_named_where_it_is_missing(tmp_path):
    (tmp_path / "x.zst").write_bytes(b"")
    program = f"""
{EVENTS}
sys.argv[1:] = [{str(tmp_path / "x.zst")!r}]
for each in {list(NEEDS)}:
    try:
        eval(each)
    except ModuleNotFoundError as missing:
        print(str(missing).partition(" needs ")[2])
"""
    said = printed(" ".join(NEEDS.values()), program).splitlines()
    assert said == [f"{name}: pip install 'overlimit[notebook]' brings it" for name in NEEDS.values()]


@pytest.mark.parametrize(
    ("hidden", "program"),
    [("numpy", "import overlimit.simulation"), ("matplotlib", f"{EVENTS} explore(Events([1], ['a']))")],
)
def test_what_nothing_of_simulations_goes_without_is_named(hidden, program):
    said = run_without(hidden, program).stderr.splitlines()[-1]
    assert said.startswith("ModuleNotFoundError: ")
    assert f"needs {hidden}: pip install 'overlimit[notebook]' brings it" in said


def test_numpy_is_enough_for_events_logs_and_traffic_and_all_that_is_imported():
    program = f"""
{EVENTS}
events = read_log("examples/shop_day.log.gz", identifiers=("ip", "user"), cost="bytes")
print(len(events), len(traffic.scanner(1, 10)), len(Events([1], ["a"])))
"""
    assert printed("pandas pyarrow matplotlib tqdm backports.zstd ipywidgets", program) == "12000 10 1\n"
    loaded = f"{EVENTS} print([name for name in {OPTIONAL.split()} if name in sys.modules])"
    assert printed("", loaded) == "['numpy']\n"
