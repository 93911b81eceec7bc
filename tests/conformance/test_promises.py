"""What each algorithm promises, held against the log of what was admitted under arbitrary traffic."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

from .strategies import examples

START_US = 1_700_000_000_123_457
names = map("promise-{}".format, itertools.count())

relaxed = examples(20)
pytestmark = pytest.mark.longer_in_prove

gaps_us = st.one_of(st.just(0), st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 30_000))
traffic = st.lists(st.tuples(gaps_us, st.integers(1, 3)), min_size=1, max_size=120)
periods_us = st.sampled_from([1_000, 9_973, 10_000])

Log = list[tuple[int, int]]  # (time, cost) of what was admitted
Refusals = list[tuple[int, int, int]]  # (time, cost, how many were admitted before)


def drive(store: Any, limit: Any, arrivals: list[tuple[int, int]]) -> tuple[Log, Refusals]:
    """Offer calls as (gap before it in us, cost); return what was admitted and what was refused."""
    clock = ManualClock(start=START_US / 1e6)
    limiter = Limiter(limit, name=next(names), store=store, clock=clock)
    now, log, refusals = START_US, [], []
    for gap, cost in arrivals:
        now += gap
        clock.set(now / 1e6)
        if limiter.hit("a", cost=cost):
            log.append((now, cost))
        else:
            refusals.append((now, cost, len(log)))
    return log, refusals


def admitted(log: Log, first: int, last: int) -> int:
    """Return what was admitted from ``first`` to ``last``, both included."""
    return sum(cost for time, cost in log if first <= time <= last)


def assert_between(
    log: Log, refusals: Refusals, most: Callable[[int], Any], least: Callable[[int], Any]
) -> None:
    """No interval has more than ``most`` of its length; what is refused would exceed ``least`` in one."""
    for first, _ in log:
        for last, _ in log:
            assert admitted(log, first, last) <= most(max(0, last - first))
    for time, cost, before in refusals:
        assert any(
            admitted(log[:before], first, time) + cost > least(time - first) for first, _ in log[:before]
        )


def within(us: int) -> Fraction:
    return Fraction(us, 1_000_000)


@relaxed
@given(most=st.integers(3, 12), period=periods_us, blocks=st.none() | st.just(1), arrivals=traffic)
def test_a_sliding_window_never_admits_more_than_its_limit_in_any_interval_and_refuses_only_what_exceeds_it(
    store, most, period, blocks, arrivals
):
    limit = SlidingWindow(most, within(period), precision=blocks and within(period))
    window = round(limit.window * 1e6)
    log, refusals = drive(store, limit, arrivals)
    assert all(admitted(log, start, start + period) <= most for start, _ in log)
    for time, cost, before in refusals:  # over one block more
        assert admitted(log[:before], time - window + 1, time) + cost > most


@relaxed
@given(
    most=st.integers(3, 12), period=periods_us, start=st.sampled_from(["first", "epoch"]), arrivals=traffic
)
def test_a_fixed_window_admits_its_limit_in_each_window_and_no_less(store, most, period, start, arrivals):
    log, refusals = drive(store, FixedWindow(most, within(period), start=start), arrivals)
    starts: list[int] = []
    for time, _ in log:
        if not starts or time >= starts[-1] + period:
            starts.append(time if start == "first" else time - time % period)
    assert all(admitted(log, start, start + period - 1) <= most for start in starts)
    for time, cost, before in refusals:
        opened = max(start for start in starts if start <= time)
        assert admitted(log[:before], opened, time) + cost > most


@relaxed
@given(most=st.integers(3, 12), period=periods_us, arrivals=traffic)
def test_a_log_admits_exactly_its_limit_in_any_interval(store, most, period, arrivals):
    log, refusals = drive(store, SlidingLog(most, within(period)), arrivals)
    assert all(admitted(log, start, start + period - 1) <= most for start, _ in log)
    for time, cost, before in refusals:
        assert admitted(log[:before], time - period + 1, time) + cost > most


@relaxed
@given(most=st.integers(3, 12), period=periods_us, arrivals=traffic)
def test_a_window_counter_admits_its_limit_in_each_window_and_at_most_twice_that_in_any_interval(
    store, most, period, arrivals
):
    log, refusals = drive(store, SlidingWindowCounter(most, within(period)), arrivals)
    for start, _ in log:
        window = start - start % period
        assert admitted(log, window, window + period - 1) <= most
        assert admitted(log, start, start + period - 1) <= 2 * most
    for time, cost, before in refusals:
        assert admitted(log[:before], time - time % period - period, time) + cost > most


@relaxed
@given(
    rate=st.integers(1, 6),
    period=periods_us,
    burst=st.integers(3, 12),
    start=st.sampled_from(["first", "epoch"]),
    arrivals=traffic,
)
def test_a_bucket_of_intervals_never_admits_more_than_its_burst_and_the_intervals_begun(
    store, rate, period, burst, start, arrivals
):
    limit = TokenBucket(rate, within(period), burst=burst, refill="interval", start=start)
    log, refusals = drive(store, limit, arrivals)
    assert_between(
        log,
        refusals,
        lambda time: burst + rate * -(-time // period),
        lambda time: burst + rate * (time // period),
    )


@relaxed
@given(
    rate=st.one_of(st.integers(1, 9), st.sampled_from([0.7, Fraction(1, 3), 12.5])),
    period=periods_us,
    burst=st.integers(3, 12),
    debt=st.integers(0, 9),
    arrivals=traffic,
)
def test_a_bucket_never_admits_more_than_burst_debt_and_rate_and_refuses_only_what_it_has_no_tokens_for(
    store, rate, period, burst, debt, arrivals
):
    log, refusals = drive(store, TokenBucket(rate, within(period), burst=burst, debt=debt), arrivals)
    per_us = Fraction(str(rate)) / period
    assert_between(
        log, refusals, lambda time: burst + debt + per_us * time, lambda time: burst + per_us * time
    )


@relaxed
@given(rate=st.integers(1, 6), period=periods_us, capacity=st.integers(3, 12), arrivals=traffic)
def test_a_leaky_bucket_lets_its_rate_go_per_period_and_holds_its_capacity(
    store, rate, period, capacity, arrivals
):
    clock = ManualClock(start=START_US / 1e6)
    limit = LeakyBucket(rate, within(period), capacity=capacity)
    limiter = Limiter(limit, name=next(names), store=store, clock=clock)
    now, gone, log = START_US, [], []
    for gap, _ in arrivals:
        now += gap
        clock.set(now / 1e6)
        decision = limiter.hit("a")
        if decision:
            gone.append(now + round(decision.delay * 1e6))
            log.append((now, 1))
        else:
            waiting = sum(instant > now for instant in gone)
            assert waiting >= capacity - rate
            assert any(
                admitted(log, first, now) + 1 > capacity + rate * (1 + (now - first) // period)
                for first, _ in log
            )
    assert gone == sorted(gone)
    for first in gone:
        assert sum(first <= instant < first + period for instant in gone) <= 2 * rate
    for first, _ in log:
        for last, _ in log:
            intervals = -(-max(0, last - first) // period)
            assert admitted(log, first, last) <= capacity + rate * (1 + intervals)


@relaxed
@given(
    rate=st.integers(1, 6),
    period=periods_us,
    capacity=st.integers(0, 12),
    burst=st.integers(1, 5),
    arrivals=traffic,
)
def test_a_leaky_bucket_with_a_burst_lets_that_go_at_once_and_spaces_the_rest(
    store, rate, period, capacity, burst, arrivals
):
    clock = ManualClock(start=START_US / 1e6)
    limit = LeakyBucket(rate, within(period), capacity=capacity, burst=burst)
    limiter = Limiter(limit, name=next(names), store=store, clock=clock)
    now, gone, waits, refused = START_US, [], [], []
    for gap, _ in arrivals:
        now += gap
        clock.set(now / 1e6)
        decision = limiter.hit("a")
        if decision:
            gone.append(now + round(decision.delay * 1e6))
            waits += [(len(gone) - 1, gone[-1])] if decision.delay else []
        else:
            refused.append((now, len(gone)))
    assert gone == sorted(gone), "first come, first served"
    for place, first in enumerate(gone):
        for more, last in enumerate(gone[place:], 1):
            assert (more - burst) * period <= rate * (last - first + 1), "never more than the shape"
    for place, at in waits:
        assert any(
            (place - i + 1 - burst) * period > rate * (at - 2 - first) for i, first in enumerate(gone[:place])
        ), "no later than the shape allows"
    for at, admitted_before in refused:
        assert sum(each > at for each in gone[:admitted_before]) >= capacity, "only while the queue is full"


@relaxed
@given(most=st.integers(3, 12), arrivals=st.lists(st.integers(0, 40_000), min_size=1, max_size=80))
def test_a_calendar_window_admits_its_limit_in_each_natural_day_and_no_less(store, most, arrivals):
    gaps = [(gap * 1_000_000, 1) for gap in arrivals]
    limit = FixedWindow(most, "day", start="calendar", timezone="Asia/Kolkata")
    log, refusals = drive(store, limit, gaps)

    def day(us: int) -> int:
        return (us // 1_000_000 + 5 * 3600 + 1800) // 86_400

    for today in {day(time) for time, _ in log}:
        assert sum(cost for time, cost in log if day(time) == today) <= most
    for time, _, before in refusals:
        assert sum(cost for at, cost in log[:before] if day(at) == day(time)) == most
