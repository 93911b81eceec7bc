"""What a type checker knows of decorated views."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VIEWS = Path(__file__).with_name("typed_views.py")
ROOT = Path(__file__).parents[3]


def test_decorators_keep_parameters_and_results_of_views():
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", VIEWS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
