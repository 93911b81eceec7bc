"""Programs that run in processes of their own, also where packages are missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any
from unittest.mock import patch

SCRIPTS = Path(__file__).parents[1] / "scripts"

HIDE = """
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if {{name, name.partition(".")[0]}} & set({packages!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def loaded_script(name: str) -> ModuleType:
    """Return a program of ``scripts/`` that is written in Python, as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where a NamedTuple looks for its types
    with patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
        loader.exec_module(module)
    return module


def command_without(packages: str, program: str) -> list[str]:
    """Return the command that runs a program where these packages, split by spaces, cannot be imported."""
    return [sys.executable, "-W", "error", "-c", HIDE.format(packages=packages.split()) + program]


def finished(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its status and what it has printed."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def run_without(packages: str, program: str) -> subprocess.CompletedProcess[str]:
    return finished(command_without(packages, program))


def run(program: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with arguments from ``sys.argv[1]`` on."""
    return finished([sys.executable, "-c", dedent(program), *map(str, arguments)], **options)


def output_of(program: str, *arguments: object, **options: Any) -> str:
    """Return what a program prints that ends well and complains of nothing."""
    done = run(program, *arguments, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
