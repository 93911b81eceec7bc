"""The tests in the folder `alone`, in a process that has counted nothing before."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

FOLDER = Path(__file__).parent / "alone"


def test_what_a_process_counts():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", FOLDER],
        env=os.environ | {"METRICS_ALONE": "1"}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.findall(r"(\d+) passed", run.stdout)[-1]) >= 20
