"""What random traces are made of: limits of every algorithm, penalties, identifiers, costs and moves."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limit,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms

ROUNDS = int(os.environ.get("PROVE", "1"))
"""How often as many examples, and other ones, `make prove` takes."""

START_US = 1_700_000_000_000_000
LAST_US = 4_000_000_000_000_000  # float seconds tell microseconds apart well beyond this
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

periods_us = st.sampled_from([1, 2, 7, 1_000, 50_000, 999_983, SECOND_US, 10 * SECOND_US, 3_600 * SECOND_US])
long_periods_us = st.sampled_from([DAY_US, 2**49])
counts = st.sampled_from([1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 0])
identifiers = st.sampled_from(["ip:1", b"ip:1", "user:é", "\ud800"])
costs = st.sampled_from([*[1] * 10, *[2] * 5, 3, 3, 4, 0, 0, 9, 2**53, 2**64])
rates = st.one_of(st.integers(1, 9), st.sampled_from([0.29, Fraction(1, 3), 1e-3, 1000, 12.5]))
debts = st.sampled_from([0, 0, 1, 3, math.inf])


def examples(count: int) -> settings:
    """Return settings for so many examples in `make test`."""
    return settings(max_examples=count * ROUNDS)


def in_seconds(us: int) -> Fraction:
    return Fraction(us, SECOND_US)


any_period = (periods_us | long_periods_us).map(in_seconds)
short_period = periods_us.map(in_seconds)


@st.composite
def sliding_windows(draw: Any) -> SlidingWindow:
    period = draw(periods_us | long_periods_us)
    dividing = [n for n in (1, 2, 3, 5, 50, 64, 1000, 4096) if period % n == 0]
    blocks = draw(st.none() | st.sampled_from(dividing))
    return SlidingWindow(draw(counts), in_seconds(period), precision=blocks and in_seconds(period // blocks))


calendar_windows = st.builds(
    FixedWindow,
    counts,
    st.sampled_from(["second", "minute", "hour", "day", "week", "month"]),
    start=st.just("calendar"),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia"]),
    week_start=st.integers(0, 6),
)
interval_buckets = st.builds(
    TokenBucket,
    st.integers(1, 5),
    short_period,
    burst=counts,
    refill=st.just("interval"),
    debt=debts,
    start=st.sampled_from(["first", "epoch"]),
)
plain_limits: st.SearchStrategy[Limit] = st.builds(
    lambda kind, most, per: kind.from_terms(Terms(most, per)),
    st.sampled_from(sorted(ALGORITHMS.values(), key=lambda kind: kind.algorithm)),
    counts,
    short_period,
)
limits: st.SearchStrategy[Limit] = st.one_of(
    plain_limits,
    st.builds(FixedWindow, counts, any_period, start=st.sampled_from(["first", "epoch"])),
    calendar_windows,
    sliding_windows(),
    st.builds(SlidingLog, counts, any_period),
    st.builds(SlidingWindowCounter, counts | st.sampled_from([2**40 + 1, 2**53 - 1]), any_period),
    st.builds(TokenBucket, rates, short_period, burst=counts.filter(bool), debt=debts),
    st.builds(TokenBucket, st.integers(0, 3), short_period),
    interval_buckets,
    st.builds(LeakyBucket, st.integers(1, 4), short_period, capacity=counts),
    st.builds(LeakyBucket, st.integers(1, 7), short_period, capacity=counts, burst=counts.filter(bool)),
)

lock_times = st.sampled_from([1, 5, 1_000, SECOND_US, 3 * SECOND_US, 60 * SECOND_US]).map(in_seconds)
penalties = st.builds(
    Penalty,
    st.lists(lock_times, min_size=1, max_size=3),
    extend=st.booleans(),
    forget_after=st.none() | lock_times,
)


@st.composite
def renumbered(draw: Any, limit: Limit) -> Limit:
    """The same limit, in the sense that it keeps its records, with other quantities."""
    _, by_name = limit._call()
    quantities = {name: draw(_quantity(limit, name)) for name in limit._scaled_arguments(Fraction(1))}
    return type(limit)(**{**by_name, **quantities})


def _quantity(limit: Limit, name: str) -> st.SearchStrategy[Any]:
    if name == "rate":
        return rates if getattr(limit, "refill", None) == "continuous" else st.integers(1, 5)
    return debts if name == "debt" else counts.filter(bool) if name == "burst" else counts


def durations_of(policy: tuple[Limit, ...]) -> list[int]:
    """Durations that mean something to these limits, in microseconds."""
    numbers = [us for limit in policy for us in limit._numbers[1:3] if us > 0]
    return numbers or [DAY_US]


def moves(us: list[int]) -> st.SearchStrategy[int]:
    """Durations worth moving by: none, tiny, around these windows and blocks, huge; ahead and back."""
    times, off = st.integers(0, 2), st.integers(-1, 1)
    near = st.builds(lambda us, times, off: us * times + off, st.sampled_from(us), times, off)
    ahead = st.one_of(st.just(0), st.integers(0, 3), near, st.integers(0, 2 * max(us)))
    anywhere = st.one_of(ahead, ahead.map(lambda move: -move), st.integers(-START_US, START_US))
    return st.one_of(st.just(0), ahead, ahead, anywhere)
