"""What is imported together with what."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import overlimit.http
from programs import output_of

HIDE_FLASK = """
import sys
for name in ("flask", "werkzeug", "click", "blinker", "redis", "starlette", "fastapi", "quart"):
    sys.modules[name] = None
import importlib, pkgutil
import overlimit.http
for module in pkgutil.walk_packages(overlimit.http.__path__, "overlimit.http."):
    importlib.import_module(module.name)
import overlimit.asgi
import overlimit.wsgi
try:
    import overlimit.flask
except ImportError:
    print("imported without Flask")
"""


def test_everything_but_the_extension_imports_without_flask():
    assert output_of(HIDE_FLASK) == "imported without Flask\n"


ROOT = Path(overlimit.http.__path__[0])
SOURCES = sorted(ROOT.rglob("*.py"))


FLASK = {path.stem: path for path in ROOT.parent.glob("flask/*.py")}
FASTAPI = {path.stem: path for path in ROOT.parent.glob("fastapi/*.py")}
QUART = {path.stem: path for path in ROOT.parent.glob("quart/*.py")}
DJANGO = {path.stem: path for path in ROOT.parent.glob("django/*.py")}


def at_run_time(node):
    """Yield what is imported when a module runs, in whatever block."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.ImportFrom):
            yield child.module or ""
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        yield from at_run_time(child)


def floor(modules, package, name):
    """Return how many modules of a package stand on each other up to this one."""
    imports = set(at_run_time(ast.parse(modules[name].read_text())))
    below = {each for each in modules if f"{package}.{each}" in imports} - {name, "__init__"}
    return 1 + max((floor(modules, package, each) for each in below), default=0)


def is_data(source):
    """Return whether a module only gives names to values."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Expr, ast.ImportFrom)
    return all(isinstance(node, kinds) for node in ast.parse(source.read_text()).body)


ABOUT = {"flask": (FLASK, {"flask", "werkzeug", "click"}), "fastapi": (FASTAPI, {"fastapi", "starlette"})}


@pytest.mark.parametrize(
    ("adapter", "name"),
    [(each, name) for each in ABOUT for name in sorted(ABOUT[each][0].keys() - {"__init__"})],
)
def test_what_is_in_an_adapter_is_about_its_framework(adapter, name):
    modules, packages = ABOUT[adapter]
    found = {each.partition(".")[0] for each in at_run_time(ast.parse(modules[name].read_text()))}
    assert found & packages or is_data(modules[name])


def lines(modules):
    return sum(len(path.read_text().splitlines()) for path in modules.values())


def test_the_adapters_are_small():
    assert len(FLASK) <= 12
    assert len(FASTAPI) <= 10
    assert len(DJANGO) <= 18
    assert lines(FLASK) < 1300
    assert lines(FASTAPI) < 1475
    assert lines(DJANGO) < 2100
    assert lines(QUART) <= 600
    assert max(lines({"": ROOT.parent / f"{name}.py"}) for name in ("asgi", "wsgi")) < 310
    assert floor(FLASK, "overlimit.flask", "__init__") <= 7
    assert floor(FASTAPI, "overlimit.fastapi", "__init__") <= 6
    assert floor(QUART, "overlimit.quart", "__init__") <= 6
    assert floor(DJANGO, "overlimit.django", "__init__") <= 6


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_what_all_frameworks_share_names_none(source):
    text = source.read_text().replace("Flask-Limiter", "")
    of_rate_limits = "app_rate_limits.py", "rate_limit.py", "routes.py"
    own = {"count_names.py": {"blueprint"}} | {name: {"init_app"} for name in of_rate_limits}
    allowed = own.get(source.name, set())  # a kind of policy name, and a method that adapters have
    words = (
        "flask(?:_login)?|fastapi|quart|starlette|django|asgiref|blueprints?|init_app|werkzeug|"
        r"limiter\.exempt"
    )
    names = re.findall(rf"(?i)\b(?:{words})\b", text)
    assert set(names) <= allowed


@pytest.mark.parametrize("name", ["asgi", "wsgi"])
def test_a_middleware_uses_what_is_public(name):
    source = ROOT.parent / f"{name}.py"
    used = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Attribute)]
    assert not [
        node.attr for node in used if re.match(r"_[^_]", node.attr) and ast.unparse(node.value) != "self"
    ]


UNCHANGED = """
import importlib, pkgutil, sys
name, roots = sys.argv[1], sys.argv[2].split()

def attributes():
    for module in [each for key, each in list(sys.modules.items()) if key.partition(".")[0] in roots]:
        for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
            yield from (((owner, key), each) for key, each in vars(owner).items() if key[:2] != "__")

for root in roots:
    importlib.import_module(root)
import overlimit.aio, overlimit.http.reports
if name == "django":
    import django.conf
    django.conf.settings.configure()
adapter = importlib.import_module(f"overlimit.{name}")
before = dict(attributes())
for each in list(sys.modules):
    if each.startswith(f"overlimit.{name}"):
        del sys.modules[each]
again = importlib.import_module(f"overlimit.{name}")
assert again is not adapter
after = dict(attributes())
print(sorted({str(key) for key in before if before[key] is not after.get(key)}))
"""


@pytest.mark.parametrize(
    "adapter", ["flask flask werkzeug", "quart quart werkzeug", "fastapi fastapi starlette", "django django"]
)
def test_importing_an_adapter_replaces_nothing_of_its_framework(adapter):
    name, _, roots = adapter.partition(" ")
    assert output_of(UNCHANGED, name, roots) == "[]\n"
