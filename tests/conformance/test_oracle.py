"""What must be true of the oracle for its answers to be worth comparing with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from .oracle import Oracle, PlainLimit, PlainPenalty
from .oracle.natural_periods import Calendar, wall_clock
from .strategies import examples

START_US = 1_800_000_000_000_000
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

LIMITS = {
    "fixed_window": PlainLimit("fixed_window", (5, 100, 0)),
    "fixed_window_epoch": PlainLimit("fixed_window", (5, 100, 1)),
    "fixed_window_calendar": PlainLimit("fixed_window", (5, 0, 2), per="second"),
    "sliding_window": PlainLimit("sliding_window", (5, 100, 20)),
    "sliding_log": PlainLimit("sliding_log", (5, 100)),
    "sliding_window_counter": PlainLimit("sliding_window_counter", (5, 100)),
    "token_bucket": PlainLimit("token_bucket", (5, 100, 7, 2, 1, 0, 0)),
    "token_bucket_interval": PlainLimit("token_bucket", (5, 100, 1, 2, 100, 0, 0)),
    "token_bucket_epoch": PlainLimit("token_bucket", (5, 100, 1, 2, 100, 1, 0)),
    "token_bucket_debt": PlainLimit("token_bucket", (5, 100, 7, 2, 1, 0, 4)),
    "leaky_bucket": PlainLimit("leaky_bucket", (2, 100, 3)),
}
relaxed = examples(10)
pytestmark = pytest.mark.longer_in_prove
each_limit = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)

calls = st.tuples(st.integers(0, 150), st.sampled_from([1, 1, 1, 2, 3, 5]))


def after(limit: PlainLimit, history: list[tuple[int, int]]) -> tuple[Oracle, int]:
    """The oracle, and the time, after these moves and costs."""
    oracle, now = Oracle((limit,)), START_US
    for move, cost in history:
        now += move
        oracle.hit(now, ["x"], cost)
    return oracle, now


@each_limit
@relaxed
@given(history=st.lists(calls, max_size=20), cost=st.integers(1, 9))
def test_a_retry_is_exact(limit, history, cost):
    oracle, now = after(limit, history)
    refused = oracle.peek(now, ["x"], cost)
    assume(refused.status == "over")
    assert refused.retry_after >= 1
    assert not oracle.peek(now + int(refused.retry_after) - 1, ["x"], cost)
    assert oracle.peek(now + int(refused.retry_after), ["x"], cost)


@each_limit
@relaxed
@given(history=st.lists(calls, max_size=20))
def test_a_reset_is_when_everything_is_granted_again(limit, history):
    oracle, now = after(limit, history)
    present = oracle.peek(now, ["x"], 0)
    untouched = oracle.peek(now + present.reset_after, ["never seen"], 0)
    returned = oracle.peek(now + present.reset_after, ["x"], 0)
    assert (returned.remaining, returned.reset_after) == (untouched.remaining, 0)


def test_natural_periods_in_utc():
    assert Calendar("hour").period_of(START_US) == (START_US, START_US + 3_600 * SECOND_US)
    assert Calendar("day").period_of(START_US) == (START_US - DAY_US // 3, START_US + 2 * DAY_US // 3)


ZONES = {  # and a year to watch
    "UTC": 2026,
    "Europe/Berlin": 2027,
    "America/Sao_Paulo": 2018,  # skips a midnight
    "America/St_Johns": 2010,  # 00:01 becomes 23:01
    "America/Havana": 2026,  # 01:00 becomes 00:00
    "Africa/Cairo": 2026,
    "Asia/Beirut": 2026,
    "Asia/Kathmandu": 1986,  # skips a quarter of an hour from midnight on
    "Australia/Lord_Howe": 2026,  # half an hour of summer
    "Pacific/Apia": 2011,  # no December 30th
    "Antarctica/Casey": 2010,  # 02:00 becomes 23:00
    "America/Nuuk": 2026,
}
days = st.integers(0, 70 * 366)


@pytest.mark.parametrize("zone", ZONES)
@relaxed
@given(day=days, within=st.integers(0, DAY_US - 1), week_start=st.integers(0, 6))
def test_long_natural_periods_follow_each_other(zone, day, within, week_start):
    for unit in ("day", "week", "month"):
        calendar = Calendar(unit, zone, week_start)
        now = day * DAY_US + within
        start, end = calendar.period_of(now)
        assert start <= now < end
        assert calendar.period_of(start) == calendar.period_of(end - 1) == (start, end)
        assert calendar.period_of(end)[0] == end
        assert calendar.period_of(start - 1)[1] == start


@pytest.mark.parametrize(("zone", "year"), ZONES.items())
def test_a_day_begins_when_the_wall_clock_first_shows_it(zone, year):
    step = 1_800 * SECOND_US
    first = (year - 1970) * 1461 // 4 * DAY_US
    shown = wall_clock(first, zone).date()
    for instant in range(first, first + 366 * DAY_US, step):
        if wall_clock(instant, zone).date() > shown:
            shown = wall_clock(instant, zone).date()
            start, _ = Calendar("day", zone).period_of(instant)
            assert instant - step < start <= instant
            assert wall_clock(start, zone).date() == shown
            assert wall_clock(start - 1, zone).date() < shown


def test_a_lock_covers_the_levels_one_after_the_other_and_forgets():
    oracle = Oracle(
        (replace(LIMITS["sliding_log"], _numbers=(1, 1)),), penalty=PlainPenalty(((20, 40), False, None))
    )
    now, lengths = START_US, []
    for pause in (0, 0, 0, 40, 0):
        now += pause
        oracle.hit(now, ["x"])
        refused = oracle.hit(now, ["x"])
        lengths.append(refused.retry_after)
        now += int(refused.retry_after)
    assert lengths == [20, 40, 40, 20, 40]
