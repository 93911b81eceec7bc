"""What limits tell of themselves."""

from __future__ import annotations

import pytest

from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)


def test_of_a_fixed_window():
    limit = FixedWindow(5, 60, start="epoch", name="n")
    assert (limit.algorithm, limit.limit, limit.per, limit.start) == ("fixed_window", 5, 60, "epoch")
    assert (limit.quota, limit.window, limit.name, limit.label) == (5, 60.0, "n", "n")
    assert limit._numbers == (5, 60_000_000, 1)
    assert (limit.timezone, limit.week_start) == ("UTC", 0)


@pytest.mark.parametrize(
    ("unit", "window"),
    [
        ("second", 1),
        ("minute", 60),
        ("hour", 3_600),
        ("day", 86_400),
        ("week", 7 * 86_400),
        ("month", 31 * 86_400),
    ],
)
def test_of_a_calendar_window(unit, window):
    limit = FixedWindow(5, unit, start="calendar", timezone="Europe/Berlin", week_start=6)
    assert (limit.algorithm, limit.limit, limit.per, limit.start) == ("fixed_window", 5, unit, "calendar")
    assert (limit.timezone, limit.week_start) == ("Europe/Berlin", 6)
    assert (limit.quota, limit.window) == (5, window)
    assert limit._numbers == (5, 0, 2)


def test_of_a_sliding_log():
    limit = SlidingLog(120, 60)
    assert (limit.algorithm, limit.limit, limit.per) == ("sliding_log", 120, 60)
    assert (limit.quota, limit.window) == (120, 60.0)
    assert limit._numbers == (120, 60_000_000)


def test_of_a_sliding_window_counter():
    limit = SlidingWindowCounter(120, 60)
    assert (limit.algorithm, limit.limit, limit.per) == ("sliding_window_counter", 120, 60)
    assert (limit.quota, limit.window) == (120, 120.0)
    assert limit._numbers == (120, 60_000_000)


def test_of_a_leaky_bucket():
    limit = LeakyBucket(10, 2, capacity=31)
    assert (limit.algorithm, limit.rate, limit.per, limit.capacity) == ("leaky_bucket", 10, 2, 31)
    assert (limit.quota, limit.window) == (41, 10.0)
    assert limit._numbers == (10, 2_000_000, 31)


def test_of_a_leaky_bucket_that_never_drains():
    assert (LeakyBucket(0, 1, capacity=0).quota, LeakyBucket(0, 1, capacity=0).window) == (0, 0.0)


def test_of_a_sliding_window():
    limit = SlidingWindow(120, 60)
    assert (limit.algorithm, limit.limit, limit.per) == ("sliding_window", 120, 60)
    assert (limit.precision, limit.quota, limit.window) == (1.2, 120, 61.2)
    assert limit._numbers == (120, 60_000_000, 1_200_000)


def test_of_a_token_bucket():
    limit = TokenBucket(10, per=2, burst=30)
    assert (limit.algorithm, limit.rate, limit.per, limit.burst) == ("token_bucket", 10, 2, 30)
    assert (limit.refill, limit.debt, limit.start) == ("continuous", 0, "first")
    assert (limit.quota, limit.window) == (30, 6.0)
    assert limit._numbers == (30, 2_000_000, 200_000, 1, 1, 0, 0)


def test_of_a_token_bucket_refilled_by_the_interval():
    limit = TokenBucket(10, per=2, burst=31, refill="interval", start="epoch", debt=7)
    assert (limit.algorithm, limit.rate, limit.per, limit.burst) == ("token_bucket", 10, 2, 31)
    assert (limit.refill, limit.debt, limit.start) == ("interval", 7, "epoch")
    assert (limit.quota, limit.window) == (31, 8.0)
    assert limit._numbers == (31, 2_000_000, 1, 10, 2_000_000, 1, 7)


def test_of_a_bucket_that_never_refills():
    assert (TokenBucket(0).burst, TokenBucket(0).window, TokenBucket(0)._numbers) == (
        0,
        0.0,
        (0, 1_000_000, 1, 0, 1, 0, 0),
    )
    shut = TokenBucket(0, refill="interval")
    assert (shut.burst, shut.window, shut._numbers) == (0, 0.0, (0, 1_000_000, 1, 0, 1_000_000, 0, 0))
