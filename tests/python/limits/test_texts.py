"""``str(limit)`` is for people, and in the grammar where that can say it."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.strategies import limits
from overlimit.errors import InvalidLimit
from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    Limit,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    parse,
)

MOST = 2**53 - 1


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (SlidingWindow(10, 60), "10 per 1 minute"),
        (FixedWindow(100, 3600), "100 per 1 hour"),
        (SlidingLog(1, timedelta(days=1)), "1 per 1 day"),
        (SlidingWindowCounter(5, 604_800), "5 per 1 week"),
        (SlidingWindow(5, 30 * 86_400), "5 per 30 days"),
        (SlidingWindow(5, 90), "5 per 90 seconds"),
        (SlidingWindow(5, 0.25), "5 per 250 ms"),
        (SlidingWindow(5, 1.25), "5 per 1250 ms"),
        (SlidingWindow(0, 60), "0 per 1 minute"),
        (SlidingWindow(3, 14 * 86_400), "3 per 2 weeks"),
        (TokenBucket(10, per=60, burst=20), "10 per 1 minute burst 20"),
        (TokenBucket(10), "10 per 1 second burst 10"),
        (LeakyBucket(10, 60, capacity=20), "10 per 1 minute burst 20"),
        (LeakyBucket(10, 60, capacity=0), "10 per 1 minute"),
        (LeakyBucket(10, 60, capacity=20, burst=5), "10 per 1 minute burst 5 queue 20"),
        (LeakyBucket(10, 60, capacity=0, burst=5), "10 per 1 minute burst 5 queue 0"),
    ],
)
def test_a_limit_in_the_grammar(limit, text):
    assert str(limit) == f"{limit}" == text
    assert parse(text, limit.algorithm) == [limit]


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (FixedWindow(10, "day", start="calendar"), "10 per day (start='calendar')"),
        (
            FixedWindow(10, "week", start="calendar", timezone="Europe/Berlin", week_start=6, name="weekly"),
            "10 per week (start='calendar', timezone='Europe/Berlin', week_start=6, name='weekly')",
        ),
        (FixedWindow(10, 60, start="epoch"), "10 per 1 minute (start='epoch')"),
        (SlidingWindow(10, 60, precision=1), "10 per 1 minute (precision=1)"),
        (SlidingWindow(10, 60, name="login"), "10 per 1 minute (name='login')"),
        (SlidingWindow(10, 0.0005), "10 per 0.0005 seconds"),
        (SlidingWindow(10, 61.000001), "10 per 61.000001 seconds"),
        (TokenBucket(0.29, burst=5), "0.29 per 1 second burst 5"),
        (TokenBucket(Fraction(1, 3), per=7), "1/3 per 7 seconds burst 1"),
        (TokenBucket(Fraction(10**5000 + 1, 10**5000), burst=1), "about 1 per 1 second burst 1"),
        (TokenBucket(1, debt=math.inf), "1 per 1 second burst 1 (debt=float('inf'))"),
        (
            TokenBucket(10, 60, refill="interval", start="epoch"),
            "10 per 1 minute burst 10 (refill='interval', start='epoch')",
        ),
    ],
)
def test_what_the_grammar_cannot_say_is_readable_and_refused_by_it(limit, text):
    assert str(limit) == text
    with pytest.raises(InvalidLimit):
        parse(text, limit.algorithm)


DURATIONS_US = st.integers(1, 2**49) | st.sampled_from([1_000, 250_000, 10**6, 6 * 10**7, 864 * 10**8])
WIDE = st.builds(SlidingWindowCounter, st.integers(0, MOST), DURATIONS_US.map(lambda us: Fraction(us, 10**6)))


def is_in_the_grammar(limit: Limit) -> bool:
    """Whether it has no more than a whole rate, a period of whole milliseconds and a burst or a capacity."""
    positional, by_name = limit._call()
    return (
        by_name.keys() <= {"per", "burst", "capacity"}
        and isinstance(positional[0], int)
        and positional[0] < 10**16
        and limit._numbers[1] % 1_000 == 0
    )


@given(limits | WIDE)
def test_every_limit_has_a_text_that_means_it_or_that_nothing_reads(limit):
    text = str(limit)
    assert text.isprintable()
    if is_in_the_grammar(limit):
        assert parse(text, limit.algorithm) == [limit]
    else:
        for algorithm in (None, limit.algorithm):
            with pytest.raises(InvalidLimit):
                parse(text, algorithm)
