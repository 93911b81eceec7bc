"""What the documentation calls, type checkers accept: mypy in strict mode, and pyright (as basedpyright)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_docs import EXAMPLES, ROOT

pytestmark = pytest.mark.check

CALLS = """
from overlimit import (
    FixedWindow, Limiter, Penalty, SharedMemoryStore, SlidingWindow, TokenBucket, acquire_all
)
from overlimit.simulation import Events, compare, replay, suggest, sweep

limiter = Limiter(["10/second", TokenBucket(10, per=60)])
Limiter([(60, 10), "5/second"])
Limiter([(60, 10), (3600, 100, 60)])
Limiter([[60, 10], [3600, 100, 60.0]])
Limiter((FixedWindow(1, 1), SlidingWindow(3, 4)))
Limiter(limiter.limits)
limiter.update(["10/second", TokenBucket(10, per=60)])
limiter.update([(60, 10), "5/second"])
events = Events([1.0], ["a"])
replay(events, ["10/second", TokenBucket(10, per=60)])
replay(events, ([(60, 10), "5/second"], Penalty(3)))
compare(events, {"a": "1/s", "b": ["1/s", TokenBucket(1)], "c": [(60, 10), "5/s"], "d": ("5/s", Penalty(60))})
acquire_all([(limiter, "a"), (limiter, b"b", 2)], timeout=None)
@limiter.throttle("a", lambda number, **_: str(number), cost=2)
def double(number: int, *, times: int = 2) -> int:
    return times * number
doubled: int = double(3, times=4)
for stats in (limiter.stats(), SharedMemoryStore("app").stats()):
    alive: int = stats["processes"]["alive"]
    damaged: int = stats["damaged"]
    unlinked: bool = stats["unlinked"]
"""
WRONG = """
from overlimit import Limiter, MemoryStore, acquire_all

Limiter(5)
Limiter("1/s", store=5)
Limiter("1/s", timeout=3)
Limiter([{"limit": 5}])
Limiter("1/s").hit(5)
MemoryStore(max_keys="1")
acquire_all([5])
Limiter("1/s").throttle(5)
Limiter("1/s").throttle("a")(len)(5)
"""
IMPORTED = """
from overlimit import FixedWindow, LeakyBucket, Limit, Limiter, Penalty, SlidingLog, SlidingWindow
from overlimit import ManualClock, MemoryStore, SlidingWindowCounter, TokenBucket, acquire_all, hit_all
from overlimit.aio import AsyncConcurrency, AsyncLimiter
from overlimit.limits import LimitsLike, SlidingWindow, TokenBucket, parse
"""
NOT_THERE = """
from overlimit import AsyncLimiter
from overlimit import RateLimit
from overlimit import _ModuleType
"""
CONFIGURATION = """
[mypy]
strict = True
ignore_missing_imports = True
show_error_context = False
scripts_are_modules = True

[mypy-pages.*]
disallow_subclassing_any = False
disallow_untyped_defs = False
disallow_untyped_calls = False
disallow_untyped_decorators = False
strict_optional = False
disable_error_code = attr-defined, no-untyped-def, union-attr, var-annotated
"""
RULES = dict.fromkeys(
    ("reportArgumentType", "reportAssertTypeFailure", "reportCallIssue", "reportIndexIssue"), "error"
)
APPS = (
    "aio/typed_tasks.py",
    "clients/typed_clients.py",
    "django/typed_django_views.py",
    "fastapi/typed_routes.py",
    "flask/typed_views.py",
    "quart/typed_quart_views.py",
)
"""What mypy checks with the package (pyproject.toml); the errors that it must find are marked there."""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with each example as a module, what must pass and the calls that must not.

    Bottle's own types are wrong: its ``get`` is no function.
    """
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "__init__.py").touch()
    for example in (each for each in EXAMPLES if "from bottle" not in each.code):
        place = "".join(each if each.isalnum() else "_" for each in example.place)
        (pages / f"{place}.py").write_text(example.code, encoding="utf-8")
    (tmp_path / "calls.py").write_text(CALLS, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    return tmp_path


def check(errors):
    """Assert that each wrong call is an error, and nothing else is."""
    assert [error for error in errors if "wrong.py" not in error] == []
    assert {error.split(":")[1] for error in errors} == {str(line) for line in range(4, 13)}


def test_mypy_accepts_what_the_pages_call(folder):
    (folder / "mypy.ini").write_text(CONFIGURATION, encoding="utf-8")
    cache = f"--cache-dir={ROOT / '.mypy_cache/pages'}"
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", cache, *map(str, sorted(folder.rglob("*.py")))],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    lines = [line for line in run.stdout.splitlines() if ": error: " in line]
    check([line.removeprefix(f"{folder}/") for line in lines])


def test_pyright_accepts_what_the_pages_call_and_apps_as_their_authors_see_them(folder):
    for app in APPS:
        shutil.copy(Path(__file__).parent / app, folder)
    # What has no types, such as Django, is not to be guessed from its code.
    own = {"typeCheckingMode": "off", "useLibraryCodeForTypes": False, "extraPaths": [str(ROOT / "python")]}
    settings = {**own, **RULES}
    check(pyright(folder, settings, f"--pythonpath={sys.executable}"))


def pyright(folder, settings, *options):
    """Return what pyright says of the files in a folder, in the form of compilers."""
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", *options, f"--project={folder}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in json.loads(run.stdout)["generalDiagnostics"]
    ]


def test_pyright_finds_the_names_of_the_installed_package_and_no_others(tmp_path):
    """Only of what lies among installed packages does pyright ask which names are exported."""
    packages = tmp_path / f"venv/lib/python3.{sys.version_info.minor}/site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").touch()
    (packages / "overlimit").symlink_to(ROOT / "python/overlimit")
    (tmp_path / "imported.py").write_text(IMPORTED, encoding="utf-8")
    (tmp_path / "not_there.py").write_text(NOT_THERE, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "venvPath": ".", "venv": "venv", "include": ["*.py"]}
    errors = pyright(tmp_path, settings)
    assert {error.partition(": ")[0] for error in errors} == {f"not_there.py:{line}" for line in (2, 3, 4)}, (
        errors
    )
