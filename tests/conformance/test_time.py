"""Time: clocks of every kind, going back, standing still, running ahead and out of range."""

from __future__ import annotations

import math

import pytest

from overlimit import FixedWindow, ManualClock

from .all_algorithms import in_debt, of_each_algorithm

ALL = of_each_algorithm(3, per=10) | in_debt(2, debt=1, per=10)
LAST_INSTANT = (2**53 - 2**50) / 1e6
BAD_READINGS = [math.nan, math.inf, -math.inf, -1e-6, -1.0, LAST_INSTANT + 1e-5, 1e10, 1e300]


class TestClockThatJumpsBack:
    @pytest.mark.parametrize("limit", ALL.values(), ids=ALL)
    def test_waits_no_longer_than_a_clock_standing_at_the_stored_time(self, build, at, limit):
        limiter = build(limit)
        at(100)
        limiter.hit("a", cost=3)
        standing = limiter.peek("a")
        at(40)
        behind = limiter.peek("a")
        assert behind.retry_after == standing.retry_after
        assert behind.reset_after == standing.reset_after
        assert 0 < behind.retry_after <= 2 * limit.window


class ClockWithNow:
    """A clock that is no function."""

    def now(self) -> float:
        return 1_234.5


class Ahead(ManualClock):
    """A clock that overrides what it is asked."""

    def now(self) -> float:
        return super().now() + 5


class TestClocks:
    @pytest.mark.parametrize(
        ("clock", "time"),
        [
            (lambda: 1_000.0, 1_000.0),
            (lambda: 1_234, 1_234.0),
            (lambda: 5.0000016, 5.000002),
            (ClockWithNow(), 1_234.5),
            (Ahead(1000.0), 1005.0),
        ],
        ids=["callable", "whole seconds", "rounded", "object", "overridden"],
    )
    def test_each_kind_is_asked(self, build, clock, time):
        assert build(FixedWindow(1, 10), clock=clock).hit("a").time == time

    @pytest.mark.parametrize("many", [False, True])
    def test_a_call_that_overtakes_the_reading_of_another_one_is_not_before_it(self, build, many):
        readings = [1_000.9]

        def now() -> float:
            if not readings:
                return 1_001.1
            reading = readings.pop()
            assert [bool(limiter.hit("a")) for _ in range(2)] == [True, True]
            return reading

        limiter = build(FixedWindow(2, 1, start="epoch"), clock=now)
        overtaken = limiter.hit_many(["a"])[0] if many else limiter.hit("a")
        assert (overtaken.time, overtaken.status) == (1_001.1, "over")


class TestManualClock:
    def test_keeps_whole_microseconds_so_that_small_steps_add_up(self):
        clock = ManualClock(start=1_700_000_000)
        for _ in range(1000):
            clock.advance(1e-6)
        assert clock.now() == 1_700_000_000.001

    @pytest.mark.parametrize("reading", BAD_READINGS)
    def test_refuses_what_no_clock_may_read_and_stays_where_it_was(self, reading):
        with pytest.raises(ValueError, match=r"1970|seconds must be"):
            ManualClock(start=reading)
        clock = ManualClock(start=7)
        with pytest.raises(ValueError, match=r"1970|seconds must be"):
            clock.set(reading)
        with pytest.raises(ValueError, match=r"1970|seconds must be"):
            clock.advance(reading - 7)
        assert clock.now() == 7.0
