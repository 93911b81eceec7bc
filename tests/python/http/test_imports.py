"""What is imported together with what."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import overlimit.http

HIDE_FLASK = """
import sys
sys.modules["flask"] = sys.modules["werkzeug"] = None
import importlib, pkgutil
import overlimit.http
for module in pkgutil.iter_modules(overlimit.http.__path__, "overlimit.http."):
    importlib.import_module(module.name)
try:
    import overlimit.flask
except ImportError:
    print("imported without Flask")
"""


def test_everything_but_the_extension_imports_without_flask():
    run = subprocess.run([sys.executable, "-c", HIDE_FLASK], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "imported without Flask"


SOURCES = sorted(Path(overlimit.http.__path__[0]).glob("*.py"))


def imported(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_what_all_frameworks_share_imports_none(source):
    assert not {"flask", "werkzeug", "flask_login"} & {name.partition(".")[0] for name in imported(source)}
    assert not [name for name in imported(source) if name.startswith("overlimit.flask")]
