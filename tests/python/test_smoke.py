"""The smoke tests run wherever they are copied to, and skip nothing that is required."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from programs import finished

# Without shared memory more is skipped than is counted here.
pytestmark = [pytest.mark.check, pytest.mark.usefixtures("shared_memory")]

SMOKE = Path(__file__).parents[1] / "smoke"


@pytest.fixture
def run_stores(tmp_path):
    """Return a function that runs the tests of stores from a copy of the folder, and returns what it says."""

    def run(redis: str, requires: str) -> tuple[int, str]:
        copy = tmp_path / "copied"
        shutil.copytree(SMOKE, copy, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        environment = {**os.environ, "REDIS_SERVER": redis, "SMOKE_REQUIRES": requires}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", copy / "test_stores.py"]
        done = finished(command, env=environment)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def redis_without_tls(tmp_path):
    program = tmp_path / "redis-server"
    program.write_text('#!/bin/sh\necho "Bad directive: $1"\nexit 1\n')
    program.chmod(0o755)
    return str(program)


def test_what_is_missing_is_skipped(run_stores, redis_without_tls):
    status, told = run_stores("no-such-server", "")
    assert status == 0
    assert "1 passed, 4 skipped" in told
    assert "redis is missing (no-such-server)" in told
    _, told = run_stores(redis_without_tls, "")
    assert f"tls is missing (TLS in {redis_without_tls})" in told
    assert "redis is missing" not in told


@pytest.mark.parametrize(("requires", "outcome"), [("tls", "1 skipped, 3 errors"), ("all", "4 errors")])
def test_what_is_required_is_not_skipped(run_stores, requires, outcome):
    status, told = run_stores("no-such-server", requires)
    assert status == 1
    assert f"1 passed, {outcome}" in told


def test_a_need_that_does_not_exist_is_refused(run_stores):
    status, told = run_stores("redis-server", "redis,tsl")
    assert status != 0
    assert "SMOKE_REQUIRES: ['tsl'] is none of" in told
    assert "passed" not in told
