"""Limits and penalties are values: what they show, when two are equal, and what they are called."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from overlimit import Limiter
from overlimit.http.answering.fields import Item, policy_field
from overlimit.limits import (
    ALGORITHMS,
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits.penalty import Penalty

from .kinds import EACH, EACH_VALUE, EXAMPLES, PENALTIES

LONGEST = (2**49 - 1) / 1e6
IN_GAZA = {"start": "calendar", "timezone": "Asia/Gaza"}


@EACH_VALUE
def test_repr_is_python_that_builds_an_equal_one(value):
    names = {kind.__name__: kind for kind in (*ALGORITHMS.values(), Fraction, Penalty)}
    assert eval(repr(value), names) == value


@EACH_VALUE
def test_pickles_and_copies_to_an_equal_one(value):
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert twin == value
        assert hash(twin) == hash(value)
        assert repr(twin) == repr(value)
        assert isinstance(value, Penalty) or twin._core_limit is not None


@EACH_VALUE
def test_cannot_be_changed(value):
    for attribute in ("limit", "per", "name", "levels", "extend", "forget_after", "_numbers", "anything"):
        with pytest.raises(AttributeError):
            setattr(value, attribute, 1)
    with pytest.raises(AttributeError):
        del value._numbers


def test_is_equal_when_its_numbers_and_its_name_are():
    minute = [60, 60.0, Fraction(60), Decimal("60.0"), timedelta(minutes=1), 60.0000000001]
    assert len({SlidingWindow(5, per) for per in minute}) == 1
    assert len({Penalty(levels) for levels in (*minute, [60], (Decimal(60),))}) == 1
    assert TokenBucket(0.29) == TokenBucket(Fraction(29, 100)) == TokenBucket(Decimal("0.29"))
    week = FixedWindow(5, "week", start="calendar")
    assert week == FixedWindow(5, "week", start="calendar", timezone="UTC", week_start=0)
    assert FixedWindow(1, 60, start="first", timezone="UTC", week_start=0) == FixedWindow(1, 60)


@pytest.mark.parametrize(
    "different",
    [
        [*EXAMPLES, *PENALTIES],
        [
            FixedWindow(5, 60),
            FixedWindow(6, 60),
            FixedWindow(5, 61),
            FixedWindow(5, 60, start="epoch"),
            FixedWindow(5, 60, name="n"),
            SlidingWindow(5, 60),
            SlidingLog(5, 60),
            SlidingWindowCounter(5, 60),
            LeakyBucket(5, 60, capacity=0),
            (5, 60),
            None,
        ],
        [
            *(FixedWindow(5, unit, start="calendar") for unit in ("day", "hour")),
            FixedWindow(5, "day", **IN_GAZA),
            *(FixedWindow(5, "week", start="calendar", week_start=day) for day in range(7)),
        ],
        [
            TokenBucket(5, 60),
            TokenBucket(5, 60, refill="interval"),
            TokenBucket(5, 60, refill="interval", start="epoch"),
            TokenBucket(5, 60, debt=1),
            TokenBucket(5, 60, refill="interval", debt=1),
            TokenBucket(1, debt=math.inf),
            TokenBucket(1, debt=TokenBucket(1, debt=math.inf)._numbers[-1]),
        ],
        [TokenBucket(5, 1e-6), TokenBucket(5, 1e-6, refill="interval")],
        [
            *(Penalty(levels) for levels in ([2, 4, 8], [2, 4, 9], [2, 8, 4], [2, 4])),
            Penalty([2, 4, 8], extend=True),
            Penalty([2, 4, 8], forget_after=8),
            FixedWindow(2, 4),
            (2, 4, 8),
        ],
    ],
    ids=range(6),
)
def test_differs_when_anything_does(different):
    for number, one in enumerate(different):
        assert [other for other in different if one == other] == [one], number
        assert sum(one != other for other in different) == len(different) - 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (FixedWindow(5, timedelta(minutes=1)), "FixedWindow(5, per=60)"),
        (FixedWindow(5, 0.5, start="epoch"), "FixedWindow(5, per=0.5, start='epoch')"),
        (SlidingWindow(5, 60, name="n"), "SlidingWindow(5, per=60, name='n')"),
        (SlidingWindow(5, 60, precision=1), "SlidingWindow(5, per=60, precision=1)"),
        (SlidingLog(5, 0.5), "SlidingLog(5, per=0.5)"),
        (SlidingWindowCounter(5, 60), "SlidingWindowCounter(5, per=60)"),
        (LeakyBucket(5, 60, capacity=0), "LeakyBucket(5, per=60, capacity=0)"),
        (LeakyBucket(5, 60, capacity=0, burst=2), "LeakyBucket(5, per=60, capacity=0, burst=2)"),
        (TokenBucket(0.5, burst=3), "TokenBucket(0.5, per=1, burst=3)"),
        (
            TokenBucket(5, refill="interval", start="epoch", debt=math.inf),
            "TokenBucket(5, per=1, refill='interval', debt=float('inf'), start='epoch')",
        ),
        (FixedWindow(5, "day", start="calendar"), "FixedWindow(5, per='day', start='calendar')"),
        (
            FixedWindow(5, "week", week_start=6, **IN_GAZA),
            "FixedWindow(5, per='week', start='calendar', timezone='Asia/Gaza', week_start=6)",
        ),
        (Penalty([60]), "Penalty(60)"),
        (Penalty((2.0, 4, timedelta(seconds=8))), "Penalty([2, 4, 8])"),
        (Penalty(0.5, True, 3), "Penalty(0.5, extend=True, forget_after=3)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_repr_is_short(value, shown):
    assert repr(value) == shown


@pytest.mark.parametrize(
    ("limit", "label"),
    [
        (SlidingWindow(120, 60), "120-per-60s"),
        (FixedWindow(1, 0.25), "1-per-0.25s"),
        (FixedWindow(1, 1e-6), "1-per-0.000001s"),
        (FixedWindow(10, 100), "10-per-100s"),
        (TokenBucket(10, burst=20), "10-per-1s-burst-20"),
        (TokenBucket(0.29), "0.29-per-1s-burst-1"),
        (FixedWindow(1, 60, name="login.ip"), "login.ip"),
        (FixedWindow(9, "day", start="calendar"), "9-per-day"),
        (FixedWindow(9, "hour", **IN_GAZA), "9-per-hour-Asia.Gaza"),
        (SlidingLog(120, 60), "120-per-60s"),
        (SlidingWindowCounter(120, 60), "120-per-60s"),
        (LeakyBucket(10, 60, capacity=5), "10-per-60s-queue-5"),
        (LeakyBucket(10, 60, capacity=5, burst=3), "10-per-60s-burst-3-queue-5"),
    ],
)
def test_a_label_is_the_name_or_says_it_all(limit, label):
    assert limit.label == label


@pytest.mark.parametrize(
    "limit",
    [
        *EXAMPLES,
        SlidingWindow(2**53 - 1, LONGEST),
        TokenBucket(2**53 - 1, 1e-6),
        TokenBucket(2**80, 2**49 / 1e6, burst=2**53 - 1),
        TokenBucket(Fraction(1, 10**9), per=1),
        TokenBucket(1, LONGEST, burst=2**53 - 1, refill="interval"),
        LeakyBucket(2**53 - 2, LONGEST, capacity=1),
        LeakyBucket(1, LONGEST, capacity=2**53 - 2),
        FixedWindow(2**53 - 1, "second", start="calendar", timezone="America/Argentina/ComodRivadavia"),
        FixedWindow(1, "month", start="calendar", timezone="Etc/GMT+12"),
        FixedWindow(1, "week", start="calendar", timezone="America/Port-au-Prince", week_start=3),
        FixedWindow(1, 1, name="A-Z_0.9"),
        FixedWindow(1, 1, name="x" * 64),
    ],
    ids=repr,
)
def test_a_label_can_stand_in_a_header_and_a_key(limit):
    assert 1 <= len(limit.label) <= 64
    assert limit.label.isascii()
    assert all(c.isalnum() or c in "_.-" for c in limit.label)
    length = min(math.ceil(limit.window), 10**15 - 1)
    written = f'"{limit.label}";q={min(limit.quota, 10**15 - 1)};w={length}'
    assert policy_field([Item(limit.label, limit.quota, limit.window)]) == written


@EACH
def test_its_text_is_no_repr(limit):
    assert str(limit)
    assert not str(limit).startswith(type(limit).__name__)


@EACH
def test_counted_by_numbers_it_is_the_same_limit_with_a_count_of_its_own(limit):
    """docs/reference/flask.md, "What counts together"."""
    twin = limit.counted_by_numbers()
    assert twin == limit
    for shown in (repr, str, lambda one: one.label, lambda one: one.name):
        assert shown(twin) == shown(limit)
    assert twin._core_limit.tag != limit._core_limit.tag
    assert twin._core_limit.tag == limit.counted_by_numbers()._core_limit.tag
    assert pickle.loads(pickle.dumps(twin)) == copy.deepcopy(twin) == limit
    half = twin.scaled(Fraction(1, 2))
    assert half == limit.scaled(Fraction(1, 2))
    assert half._core_limit.tag == twin._core_limit.tag


def test_counted_by_numbers_other_numbers_and_names_count_apart(build):
    limits = [
        FixedWindow(5, 60),
        FixedWindow(6, 60),
        FixedWindow(5, 60, name="n"),
        TokenBucket(5, 60, burst=7),
        TokenBucket(5, 60, burst=8),
    ]
    tags = {limit.counted_by_numbers()._core_limit.tag for limit in limits}
    assert len(tags) == len(limits)
    counted: list[Limiter] = [build([limit.counted_by_numbers()], name="together") for limit in limits]
    for limiter, limit in zip(counted, limits, strict=True):
        assert [bool(limiter.hit("ann")) for _ in range(limit.quota + 1)] == [True] * limit.quota + [False]
