"""The pytest plugin, in a project of its own that has nothing but the installed package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from programs import finished


def run_pytest(folder: Path, code: str, *options: str) -> str:
    """Run pytest on a module of tests, without what this project says of its own, and return its output."""
    (folder / "test_project.py").write_text(code, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    words = "-m pytest -q -p no:cacheprovider -p no:xdist -W ignore::pytest.PytestAssertRewriteWarning"
    done = finished(
        [sys.executable, *words.split(), *options, "test_project.py"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_fixtures_need_no_import(tmp_path):
    code = """
import time
import pytest
from flask import Flask
from overlimit import Limiter, ManualClock
from overlimit.flask import RateLimit

limiter = Limiter("1/day", name="module")
app = Flask(__name__)
RateLimit(app, default_limits="2/minute")
app.add_url_rule("/", view_func=lambda: "hello")

@pytest.mark.parametrize("number", [1, 2])
def test_counts_begin_anew(overlimit_fresh, number):
    assert limiter.hit("a")
    assert not limiter.hit("a")
    overlimit_fresh()
    assert limiter.hit("a")

def test_time_stands_still(overlimit_fresh, overlimit_time):
    assert isinstance(overlimit_time, ManualClock)
    assert 0 <= time.time() - overlimit_time.now() < 86_400 + 60
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    overlimit_time.advance(int(client.get("/").headers["Retry-After"]))
    assert client.get("/").status_code == 200

def test_afterwards_time_goes_on(overlimit_fresh):
    assert limiter.hit("b").time <= time.time() < limiter.peek("b").time + 60

@pytest.fixture(autouse=True)
def another_start(request):
    from overlimit.testing import manual_time
    if "inner" not in request.node.name:
        yield None
    else:
        with manual_time(100) as clock:
            yield clock

def test_the_inner_clock_is_followed(overlimit_fresh, another_start):
    assert limiter.hit("a").time == 100
"""
    assert "5 passed" in run_pytest(tmp_path, code)


def test_a_fixture_has_limiters_follow_what_stops_time_time(tmp_path):
    code = """
import time
from unittest import mock
import time_machine
from freezegun import freeze_time
from overlimit import Limiter

limiter = Limiter("1/hour", name="module")

@freeze_time("2030-01-01")
def test_freezegun_before_it(overlimit_fresh, overlimit_python_time):
    assert [limiter.hit("a").allowed for _ in range(2)] == [True, False]
    assert limiter.peek("a").time == 1_893_456_000

def test_time_machine_after_it(overlimit_fresh, overlimit_python_time):
    with time_machine.travel("2030-01-01T00:00Z", tick=False) as traveller:
        assert [limiter.hit("a").allowed for _ in range(2)] == [True, False]
        traveller.shift(2 * 3600)
        assert limiter.hit("a")

def test_afterwards_nobody_moves_it(overlimit_fresh):
    with mock.patch("time.time", return_value=1_893_456_000.0):
        assert limiter.hit("a").time < 1_893_456_000
"""
    assert "3 passed" in run_pytest(tmp_path, code)


def test_waits_are_the_same_whenever_the_tests_run(tmp_path):
    code = """
from unittest import mock
import pytest
from overlimit import Limiter

@pytest.fixture(params=[1_893_456_000.0, 1_893_459_599.9, 1_893_501_234.567], autouse=True)
def started_at(request):
    with mock.patch("time.time", return_value=request.param):
        yield

WAITS = [("1/second", 1.02), ("1/minute", 61.2), ("1/hour", 3672), ("1/day", 88128)]

@pytest.mark.parametrize(("limit", "wait"), WAITS)
def test_a_wait(overlimit_time, limit, wait):
    assert overlimit_time.now() == 1_893_456_000
    limiter = Limiter(limit)
    assert limiter.hit("a")
    assert limiter.peek("a").retry_after == wait
"""
    assert "12 passed" in run_pytest(tmp_path, code)


def test_nothing_of_the_package_is_loaded_until_a_fixture_is_used(tmp_path):
    code = """
import sys

def loaded():
    return {name for name in sys.modules if name.partition(".")[0] == "overlimit"}

def test_without():
    assert "pytest_overlimit" in sys.modules
    assert loaded() == set()

def test_with(overlimit_time):
    assert "overlimit.testing" in loaded()
"""
    assert "2 passed" in run_pytest(tmp_path, code)


@pytest.mark.check
@pytest.mark.parametrize(
    ("fixture", "said"),
    [
        ("overlimit_time", "stands still until the test moves it"),
        ("overlimit_python_time", "follow ``time.time`` during the test"),
        ("overlimit_fresh", "forget their counts"),
    ],
)
def test_pytest_tells_of_each_fixture(tmp_path, fixture, said):
    listed = run_pytest(tmp_path, "def test(): pass", "--fixtures", "-vv")
    assert said in listed.partition(f"\n{fixture} ")[2].partition("\n\n\n")[0]
