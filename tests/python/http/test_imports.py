"""What is imported together with what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import overlimit.http

HIDE_FLASK = """
import sys
for name in ("flask", "werkzeug", "click", "blinker", "redis", "starlette", "fastapi"):
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
    run = subprocess.run([sys.executable, "-c", HIDE_FLASK], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "imported without Flask"


ROOT = Path(overlimit.http.__path__[0])
SOURCES = sorted(ROOT.rglob("*.py"))


def imported(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_what_all_frameworks_share_imports_none(source):
    frameworks = {"flask", "werkzeug", "flask_login", "starlette", "fastapi", "django", "asgiref"}
    assert not frameworks & {name.partition(".")[0] for name in imported(source)}
    adapters = tuple(f"overlimit.{each}" for each in ("flask", "fastapi", "django", "asgi", "wsgi"))
    assert not [name for name in imported(source) if name.startswith(adapters)]


FLASK = {path.stem: path for path in ROOT.parent.glob("flask/*.py")}
FASTAPI = {path.stem: path for path in ROOT.parent.glob("fastapi/*.py")}
DJANGO = {path.stem: path for path in ROOT.parent.glob("django/*.py")}
ROOMS = (
    "request",
    "callables",
    "cookies",
    "servers",
    "answering",
    "identifying",
    "options",
    "rules",
    "deciding",
    "asgi",
)


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


@pytest.mark.parametrize("name", sorted(FASTAPI.keys() - {"__init__"}))
def test_what_is_in_the_adapter_of_fastapi_is_about_it(name):
    found = {each.partition(".")[0] for each in at_run_time(ast.parse(FASTAPI[name].read_text()))}
    assert found & {"fastapi", "starlette"} or is_data(FASTAPI[name])


@pytest.mark.parametrize("adapter", ["flask", "fastapi", "django"])
def test_an_adapter_uses_no_other(adapter):
    others = tuple(f"overlimit.{each}" for each in ("flask", "fastapi", "django") if each != adapter)
    sources = sorted(ROOT.parent.glob(f"{adapter}/*.py"))
    assert len(sources) > 8
    assert not [name for source in sources for name in imported(source) if name.startswith(others)]


@pytest.mark.parametrize("name", sorted(FLASK.keys() - {"__init__"}))
def test_what_is_in_the_extension_is_about_flask(name):
    found = {each.partition(".")[0] for each in at_run_time(ast.parse(FLASK[name].read_text()))}
    assert found & {"flask", "werkzeug", "click"} or is_data(FLASK[name])


def lines(modules):
    return sum(len(path.read_text().splitlines()) for path in modules.values())


def test_the_adapters_are_small():
    assert len(FLASK) <= 12
    assert len(FASTAPI) <= 10
    assert len(DJANGO) <= 18
    assert lines(FLASK) < 1850
    assert lines(FASTAPI) < 1600
    assert lines(DJANGO) < 2000
    assert floor(FLASK, "overlimit.flask", "__init__") <= 7
    assert floor(FASTAPI, "overlimit.fastapi", "__init__") <= 6
    assert floor(DJANGO, "overlimit.django", "__init__") <= 6


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_only_those_below_it(room):
    sources = [source for source in SOURCES if source.relative_to(ROOT).parts[0] in (room, f"{room}.py")]
    assert sources
    used = {name for source in sources for name in at_run_time(ast.parse(source.read_text()))}
    rooms = {name.split(".")[2] for name in used if name.startswith("overlimit.http.")}
    assert rooms <= set(ROOMS[: ROOMS.index(room) + 1])


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_what_all_frameworks_share_names_none(source):
    text = source.read_text().replace("Flask-Limiter", "")
    own = {"count_names.py": {"blueprint"}}.get(source.name, set())  # a kind of policy name
    words = "flask|fastapi|starlette|django|blueprints?|init_app|werkzeug|limiter\\.exempt"
    names = re.findall(rf"(?i)\b(?:{words})\b", text)
    assert set(names) <= own


@pytest.mark.parametrize("name", ["asgi", "wsgi"])
def test_a_middleware_imports_no_framework(name):
    source = ROOT.parent / f"{name}.py"
    ours = [name for name in imported(source) if name.startswith("overlimit")]
    below = ("overlimit.http.", "overlimit._logging.", "overlimit.errors", "overlimit.stores")
    assert all(name.startswith(below) for name in ours)
    assert len(source.read_text().splitlines()) < 310


@pytest.mark.parametrize("name", ["asgi", "wsgi"])
def test_a_middleware_uses_what_is_public(name):
    source = ROOT.parent / f"{name}.py"
    used = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Attribute)]
    assert not [
        node.attr for node in used if re.match(r"_[^_]", node.attr) and ast.unparse(node.value) != "self"
    ]
