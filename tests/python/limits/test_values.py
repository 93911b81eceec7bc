"""Limits are values: what they show, and when two are equal."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

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

from .kinds import EACH, EXAMPLES


@EACH
def test_repr_is_python_that_builds_an_equal_limit(limit):
    names = {kind.__name__: kind for kind in (*ALGORITHMS.values(), Fraction)}
    assert eval(repr(limit), names) == limit


@EACH
def test_pickles_and_copies_to_an_equal_limit(limit):
    for twin in (pickle.loads(pickle.dumps(limit)), copy.copy(limit), copy.deepcopy(limit)):
        assert twin == limit
        assert hash(twin) == hash(limit)
        assert repr(twin) == repr(limit)
        assert twin._core_limit is not None


@EACH
def test_cannot_be_changed(limit):
    for attribute in ("limit", "per", "name", "_numbers", "anything"):
        with pytest.raises(AttributeError):
            setattr(limit, attribute, 1)
    with pytest.raises(AttributeError):
        del limit._name


def test_is_equal_when_its_numbers_and_its_name_are():
    minute = [60, 60.0, Fraction(60), Decimal("60.0"), timedelta(minutes=1), 60.0000000001]
    assert len({SlidingWindow(5, per) for per in minute}) == 1
    assert len(set(EXAMPLES)) == len(EXAMPLES)
    assert TokenBucket(0.29) == TokenBucket(Fraction(29, 100)) == TokenBucket(Decimal("0.29"))


@pytest.mark.parametrize(
    "other",
    [
        FixedWindow(6, 60),
        FixedWindow(5, 61),
        FixedWindow(5, 60, start="epoch"),
        FixedWindow(5, 60, name="n"),
        SlidingWindow(5, 60),
        SlidingLog(5, 60),
        SlidingWindowCounter(5, 60),
        TokenBucket(5, 60),
        LeakyBucket(5, 60, capacity=0),
        (5, 60),
        None,
    ],
)
def test_differs_when_anything_does(other):
    assert FixedWindow(5, 60) != other


def test_differs_when_the_calendar_does():
    assert FixedWindow(5, "week", start="calendar") == FixedWindow(
        5, "week", start="calendar", timezone="UTC", week_start=0
    )
    calendars = [("day", "UTC"), ("hour", "UTC"), ("day", "Asia/Gaza"), ("week", "UTC")]
    limits = {FixedWindow(5, unit, start="calendar", timezone=zone) for unit, zone in calendars}
    limits |= {
        FixedWindow(5, "week", start="calendar", timezone="UTC", week_start=day) for day in range(1, 7)
    }
    assert len(limits) == 10


def test_differs_when_the_refill_does():
    buckets = [
        TokenBucket(5, 60),
        TokenBucket(5, 60, refill="interval"),
        TokenBucket(5, 60, refill="interval", start="epoch"),
        TokenBucket(5, 60, debt=1),
        TokenBucket(5, 60, refill="interval", debt=1),
    ]
    assert len(set(buckets)) == 5
    assert TokenBucket(5, 1e-6) != TokenBucket(5, 1e-6, refill="interval")


def test_repr_is_short():
    assert repr(FixedWindow(5, timedelta(minutes=1))) == "FixedWindow(5, per=60)"
    assert repr(FixedWindow(5, 0.5, start="epoch")) == "FixedWindow(5, per=0.5, start='epoch')"
    assert repr(SlidingWindow(5, 60, name="n")) == "SlidingWindow(5, per=60, name='n')"
    assert repr(SlidingWindow(5, 60, precision=1)) == "SlidingWindow(5, per=60, precision=1)"
    assert repr(SlidingLog(5, 0.5)) == "SlidingLog(5, per=0.5)"
    assert repr(SlidingWindowCounter(5, 60)) == "SlidingWindowCounter(5, per=60)"
    assert repr(LeakyBucket(5, 60, capacity=0)) == "LeakyBucket(5, per=60, capacity=0)"
    assert repr(TokenBucket(0.5, burst=3)) == "TokenBucket(0.5, per=1, burst=3)"
    assert repr(TokenBucket(5, refill="interval", start="epoch", debt=math.inf)) == (
        "TokenBucket(5, per=1, refill='interval', debt=float('inf'), start='epoch')"
    )
    assert repr(FixedWindow(5, "day", start="calendar")) == "FixedWindow(5, per='day', start='calendar')"
    assert repr(FixedWindow(5, "week", start="calendar", timezone="Asia/Gaza", week_start=6)) == (
        "FixedWindow(5, per='week', start='calendar', timezone='Asia/Gaza', week_start=6)"
    )
