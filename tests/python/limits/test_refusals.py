"""What limits and penalties refuse: each wrong value, by a message that begins with the argument's name."""

from __future__ import annotations

import math
import re
from datetime import UTC, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket
from overlimit.limits.penalty import Penalty

from .kinds import KINDS, REFILLS, WINDOWS

NOT_WHOLE = [-1, 2**53, 10**5000, 1.5, 5.0, True, False, "5", [5], math.nan, -math.inf, Decimal("Infinity")]
NO_DURATIONS = [
    *(-1, -0.5, timedelta(seconds=-1), Fraction(2**49 + 1, 10**6), 10**5000, Decimal("1E+99999999"), 1e300),
    *(timedelta.max, math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")),
    *(True, False, "60", b"60", 1j),
]
NOTHING = [0, 0.0, 4e-7, Decimal("1E-9999999"), Fraction(1, 10**9), timedelta(0)]
NO_STARTS = ["", "First", "day", None, 0, True, ["first"], b"epoch"]
NO_RATES = [
    *(-1, -0.1, 0, 1e300, 1e-300, math.nan, math.inf, Decimal("NaN"), Decimal("1E+999999")),
    *(True, "10", None, 1j, timedelta(1)),
]
NOT_WHOLE_TOKENS = [0, 0.5, 1.5, Fraction(1, 3), Decimal("2.5"), 2**53, 1e300]
NO_PRECISIONS = [0.3, 7, 20, 4e-7, 0, -1, math.nan, "1", True, 10 / 4097, Fraction(10, 5000)]
NO_LEVELS = [*NO_DURATIONS, *NOTHING, None]
NO_NAMES = ["", "x" * 65, "a b", "a:b", "é", "a\n", "{a}", b"a", 5, True]
NO_UNITS = [60, 1, timedelta(days=1), "year", "days", "Day", "", None, ["day"]]
NO_ZONES = [
    *("Europe/Atlantis", "Europe", "Europe/", "/etc/passwd", "../../etc/passwd", "zone.tab", "localtime"),
    *("posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe/Berlin\n", "Europe/Berlin\0"),
    *("\ud800", "", "x" * 1000, "+01:00", b"UTC", None, 0, UTC, ZoneInfo("Europe/Berlin")),
]
NO_WEEKDAYS = [-1, 7, 0.0, 1.0, True, None, "monday", "0"]

in_calendar = partial(FixedWindow, 1, start="calendar")
bucket = partial(TokenBucket, 1, 1)


def named(argument, build):
    return lambda value: build(**{argument: value})


def each(argument, builds, wrong):
    """Return rows for an argument of several classes or ways to build them."""
    return [(argument, named(argument, build), wrong) for build in builds]


BOTH = [partial(bucket, refill=refill) for refill in REFILLS]
REFUSALS = [
    *each("limit", [partial(kind, per=1) for kind in WINDOWS], [*NOT_WHOLE, None]),
    ("limit .* 10000", partial(SlidingLog, per=1), [10_001, 2**53 - 1]),
    ("rate", partial(LeakyBucket, per=1, capacity=0), [*NOT_WHOLE, None]),
    *each("capacity", [partial(LeakyBucket, 1, 1)], [*NOT_WHOLE, None]),
    *each("burst", [bucket], NOT_WHOLE),
    *each("debt", BOTH, [*NOT_WHOLE, None]),
    *(("per", partial(kind, 1), [*NO_DURATIONS, *NOTHING, None, (60,)]) for kind in KINDS),
    *(("per must be a number of seconds .* such as 60", partial(kind, 1), NO_UNITS[3:7]) for kind in KINDS),
    ("rate", partial(TokenBucket, burst=1), NO_RATES),
    ("rate", partial(TokenBucket, per=1e-6, burst=1), [2**54]),
    ("rate", lambda burst: TokenBucket(1, 3600, burst=burst), [2**53 - 1]),
    ("rate", partial(TokenBucket, per=1, burst=1, refill="interval"), NOT_WHOLE_TOKENS),
    ("rate", lambda capacity: LeakyBucket(0, 1, capacity=capacity), [1]),
    ("rate", lambda burst: LeakyBucket(0, 1, capacity=0, burst=burst), [1]),
    ("burst", lambda burst: LeakyBucket(1, 1, capacity=0, burst=burst), [-1, 1.5, "1", True]),
    ("capacity", lambda capacity: LeakyBucket(7, 86400, capacity=capacity, burst=1), [104_249]),
    ("capacity", lambda capacity: LeakyBucket(2**52, 1, capacity=capacity), [2**52]),
    ("burst", TokenBucket, [2**53]),
    *each("debt", [partial(TokenBucket, 0, refill=refill) for refill in REFILLS], [1, 2**52, math.inf]),
    ("debt", lambda debt: TokenBucket(1, 1, burst=10, refill="interval", debt=debt), [2**53 - 10]),
    *each("refill", [bucket], ["", "Interval", "greedy", None, 0, True, ["interval"]]),
    *each("precision", [partial(SlidingWindow, 1, 10)], NO_PRECISIONS),
    *each("start", [partial(FixedWindow, 1, 1), partial(FixedWindow, 1, "day")], NO_STARTS),
    *each("start", BOTH, [*NO_STARTS, "calendar"]),
    ("start='epoch'.* continuous", named("start", bucket), ["epoch"]),
    *each("name", [partial(kind, 1, 1) for kind in KINDS], NO_NAMES),
    ("per", in_calendar, NO_UNITS),
    ("per .*'month'", in_calendar, ["year"]),
    *each("timezone", [partial(in_calendar, "day")], NO_ZONES),
    *each("week_start", [partial(in_calendar, "week")], NO_WEEKDAYS),
    ("levels", Penalty, [*NO_LEVELS, {1, 2}, {1: 2}, [[1]], iter([1])]),
    ("levels", lambda wrong: Penalty([1, 2, wrong]), NO_LEVELS),
    *each("forget_after", [partial(Penalty, 1)], [*NO_DURATIONS, *NOTHING]),
    *each("extend", [partial(Penalty, 1)], [0, 1, None, "yes", [True]]),
]


def refusal(build, value):
    """Return what is said of a value, or None if it is taken."""
    try:
        build(value)
    except InvalidLimit as error:
        return str(error)
    return None


@pytest.mark.parametrize(("argument", "build", "wrong"), REFUSALS, ids=range(len(REFUSALS)))
def test_a_wrong_value_is_refused_naming_the_argument(argument, build, wrong):
    said = [(value, refusal(build, value)) for value in wrong]
    assert [each for each in said if not re.match(rf"{argument}(?!\w)", each[1] or "")] == []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FixedWindow("five", 60), "'five'"),
        (lambda: SlidingWindow(-3, 60), r"-3\b"),
        (lambda: in_calendar("day", timezone="Europe/Atlantis"), r"^timezone .*'Europe/Atlantis'"),
        (lambda: Penalty([1] * 65), r"^levels .* not 65$"),
        (lambda: Penalty([]), r"^levels .* not 0$"),
    ],
)
def test_a_refusal_shows_the_value(build, message):
    with pytest.raises(InvalidLimit, match=message):
        build()


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day", "week", "month"])
def test_a_calendar_unit_where_seconds_are_expected_says_what_to_write(unit):
    written = f'FixedWindow(limit, "{unit}", start="calendar")'
    for said in (refusal(partial(kind, 10), unit) for kind in KINDS):
        assert said.startswith("per must be a number of seconds or a timedelta")
        assert said.endswith(f"write {written}")
    assert eval(written, {"FixedWindow": FixedWindow, "limit": 10}).per == unit


@pytest.mark.parametrize("start", ["first", "epoch"])
@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("per", {"per": "day"}),
        ("timezone", {"per": 60, "timezone": "Europe/Berlin"}),
        ("timezone", {"per": 60, "timezone": None}),
        ("week_start", {"per": 60, "week_start": 6}),
        ("week_start", {"per": 60, "week_start": None}),
        ("week_start", {"per": 60, "week_start": False}),
    ],
)
def test_windows_that_follow_no_calendar_take_nothing_of_one(start, argument, arguments):
    with pytest.raises(InvalidLimit, match=f"^{argument} .*calendar"):
        FixedWindow(1, start=start, **arguments)


def test_whatever_follows_the_first_two_is_given_by_name():
    for kind in KINDS:
        with pytest.raises(TypeError, match=r"takes 2 arguments by position"):
            kind(10, 60, "name")
    for build, written in (
        (lambda: FixedWindow(10, 60, "epoch"), "start='epoch'"),
        (lambda: SlidingWindow(10, 60, 1), "precision=1"),
        (lambda: TokenBucket(10, 60, 20), "burst=20"),
        (lambda: LeakyBucket(10, 60, 20), "capacity=20"),
    ):
        with pytest.raises(TypeError, match=rf"takes 2 arguments by position .* by name, as {written}"):
            build()
    with pytest.raises(TypeError, match="capacity"):
        LeakyBucket(1, 1)


def test_debts_too_large_for_the_rate_say_which_number_to_lower():
    for debt in (2_501_999, 2**40, 2**53 - 1, 2**53 - 2):
        with pytest.raises(InvalidLimit, match=r"burst=1 and debt=\d+: lower debt$"):
            TokenBucket(1, 3600, burst=1, debt=debt)
    for debt in (0, 1, 2**52, math.inf):
        with pytest.raises(InvalidLimit, match=r"^rate=1 cannot be kept .* burst=16: lower burst$"):
            TokenBucket(1, 2**49 / 1e6, burst=16, debt=debt)
