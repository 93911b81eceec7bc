"""Programs that run in processes of their own, also where packages are missing."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import Any

HIDE = """
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def command_without(packages: str, program: str) -> list[str]:
    """Return the command that runs a program where these packages, split by spaces, cannot be imported."""
    return [sys.executable, "-W", "error", "-c", HIDE.format(packages=packages.split()) + program]


def _finished(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def run_without(packages: str, program: str) -> subprocess.CompletedProcess[str]:
    return _finished(command_without(packages, program))


def run(program: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with arguments from ``sys.argv[1]`` on."""
    return _finished([sys.executable, "-c", dedent(program), *map(str, arguments)], **options)


def output_of(program: str, *arguments: object, **options: Any) -> str:
    """Return what a program prints that ends well and complains of nothing."""
    done = run(program, *arguments, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
