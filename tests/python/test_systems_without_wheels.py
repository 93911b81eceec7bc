"""Where overlimit cannot run, an installation ends with one sentence, before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs import run

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
BUILD = "import sys; {pretending}; from scikit_build_core.build import {step}; {step}(sys.argv[1])"


@pytest.mark.parametrize("step", ["build_wheel", "build_editable", "prepare_metadata_for_build_wheel"])
@pytest.mark.parametrize(
    ("pretending", "told"),
    [
        ("sys.platform = 'win32'", "overlimit does not run on Windows: it needs Linux or macOS."),
        (
            "sys.implementation.name = 'pypy'",
            "overlimit does not run on PyPy: it needs CPython 3.11 or newer",
        ),
    ],
)
def test_it_says_what_is_supported(tmp_path, pretending, told, step):
    program = BUILD.format(pretending=pretending, step=step)
    done = run(program, tmp_path, cwd=ROOT, env={"NO_COLOR": "1"})
    assert done.returncode != 0
    assert told in done.stdout + done.stderr
    assert "CMake" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
