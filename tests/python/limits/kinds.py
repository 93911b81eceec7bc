"""Every kind of limit, and examples of each."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial

import pytest

from overlimit.limits import (
    ALGORITHMS,
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits.limit import Terms
from overlimit.limits.penalty import Penalty

WINDOWS = [FixedWindow, SlidingWindow, SlidingWindowCounter, SlidingLog]
KINDS = [partial(kind, capacity=0) if kind is LeakyBucket else kind for kind in ALGORITHMS.values()]
REFILLS = ["continuous", "interval"]

EXAMPLES = [
    *(kind.from_terms(Terms(7, 60)) for kind in ALGORITHMS.values()),
    FixedWindow(5, 60),
    FixedWindow(5, 0.5, start="epoch", name="burst.guard-1"),
    FixedWindow(0, timedelta(days=1)),
    FixedWindow(1000, "day", start="calendar"),
    FixedWindow(1000, "week", start="calendar", timezone="Europe/Berlin", week_start=6, name="weekly"),
    FixedWindow(1000, "second", start="calendar", timezone="Etc/GMT+5"),
    SlidingWindow(120, 60),
    SlidingWindow(120, 60, precision=Fraction(1, 4), name="api"),
    SlidingWindow(2**53 - 1, 2**49 / 1e6),
    SlidingLog(120, 60),
    SlidingLog(10_000, 0.25, name="exact"),
    SlidingWindowCounter(120, 60),
    SlidingWindowCounter(2**53 - 1, 2**49 / 1e6, name="rough"),
    LeakyBucket(10, 1, capacity=20),
    LeakyBucket(10, 1, capacity=20, burst=5),
    LeakyBucket(0, timedelta(hours=1), capacity=0, name="shut"),
    TokenBucket(10),
    TokenBucket(10, per=60, burst=20, name="b"),
    TokenBucket(0.29, burst=100),
    TokenBucket(Fraction(1, 3), per=7),
    TokenBucket(Decimal("0.001"), burst=3),
    TokenBucket(0),
    TokenBucket(2**80, 2**49 / 1e6, burst=5),
    TokenBucket(10, 60, burst=30, refill="interval"),
    TokenBucket(10, 60, refill="interval", start="epoch", name="hourly"),
    TokenBucket(10, 60, debt=5),
    TokenBucket(1, 2, refill="interval", debt=math.inf),
    TokenBucket(0.5, burst=3, debt=math.inf),
]
PENALTIES = [
    Penalty(60),
    Penalty([2, 4, 8]),
    Penalty([0.5, Fraction(1, 4)], extend=True),
    Penalty(timedelta(minutes=5), forget_after=3),
    Penalty([60, 3600], True, timedelta(days=1)),
]
EACH = pytest.mark.parametrize("limit", EXAMPLES, ids=repr)
EACH_VALUE = pytest.mark.parametrize("value", [*EXAMPLES, *PENALTIES], ids=repr)
