"""scripts/run-steps: what `make test` ends with when its steps pass, and when one fails."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from programs import finished

RUN_STEPS = Path(__file__).parents[2] / "scripts" / "run-steps"
MAKEFILE = """
pytest-passes:
	@echo "== 12 passed, 3 deselected in 1.5s =="
pytest-fails:
	@echo "FAILED tests/test_a.py::test_b"; echo "2 failed, 9 passed, 1 error in 0.5s"; exit 1
cpp-passes:
	@echo "30 passed, 0 failed"
measures:
	@echo "figure: 12 apples"; echo "a figure: no"; echo "1 passed"
computes:
	@python3 -c 'import time; [time.process_time() for _ in iter(lambda: time.process_time() < 1, False)]'
lint-passes:
	@echo "All checks passed!"
crashes:
	@echo "30 passed, 0 failed"; echo "Segmentation fault" >&2; exit 139
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs steps of ``MAKEFILE`` and returns the status and the lines printed."""
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def steps(*targets):
        done = finished([RUN_STEPS, "--jobs", "2", *targets], cwd=tmp_path, env=environment)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    return steps


def test_counts_of_all_steps_are_the_last_line(run):
    status, lines = run("pytest-passes", "cpp-passes", "lint-passes")
    assert (status, lines[-1]) == (0, "42 passed, 0 failed")
    assert not any("All checks passed!" in line for line in lines)


def test_figures_of_a_step_that_passes_are_shown(run):
    status, lines = run("measures")
    assert status == 0
    assert "figure: 12 apples" in lines
    assert not any("no" in line.split() for line in lines)


@pytest.mark.check
def test_what_a_step_computed_is_said(run):
    """Also what its grandchildren did, but not what was waited for."""
    status, lines = run("computes")
    assert status == 0
    (said,) = (
        match
        for line in lines
        if (match := re.fullmatch(r"computes: passed in \d+ s, of processors (\d+) s", line))
    )
    assert 1 <= int(said[1]) <= 3


def test_one_step_that_fails_fails_all_and_shows_its_output(run):
    status, lines = run("pytest-passes", "pytest-fails", "cpp-passes")
    assert (status, lines[-1]) == (1, "51 passed, 3 failed")
    assert lines[-2] == "Failed: pytest-fails"
    assert "FAILED tests/test_a.py::test_b" in lines


@pytest.mark.parametrize(("step", "passed"), [("crashes", 30), ("unknown", 0)])
def test_a_step_that_fails_without_a_failed_test_counts_as_one(run, step, passed):
    status, lines = run(step, "cpp-passes")
    assert (status, lines[-1]) == (1, f"{30 + passed} passed, 1 failed")
