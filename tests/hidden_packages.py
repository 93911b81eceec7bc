"""Programs that run where packages are missing."""

from __future__ import annotations

import subprocess
import sys

HIDE = """
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden)
"""


def command_without(packages: str, program: str) -> list[str]:
    """Return the command that runs a program where these packages, split by spaces, cannot be imported."""
    return [sys.executable, "-W", "error", "-c", HIDE.format(packages=packages.split()) + program]


def run_without(packages: str, program: str) -> subprocess.CompletedProcess[str]:
    command = command_without(packages, program)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
