"""The limits as values: what they accept, refuse, show and compare."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.http.fields import Item, policy_field
from overlimit.limits import (
    ALGORITHMS,
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits.rational import largest_fraction_up_to


def queueless(rate: int, per: object = 1, capacity: int = 0, *, name: str | None = None) -> LeakyBucket:
    return LeakyBucket(rate, per, capacity, name=name)


WINDOWS = pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow, SlidingWindowCounter])
KINDS = pytest.mark.parametrize(
    "kind", [FixedWindow, SlidingWindow, SlidingLog, SlidingWindowCounter, TokenBucket, queueless]
)
INTERVALS = pytest.mark.parametrize("refill", ["continuous", "interval"])

EXAMPLES = [
    FixedWindow(5, 60),
    FixedWindow(5, 0.5, start="epoch", name="burst.guard-1"),
    FixedWindow(0, timedelta(days=1)),
    FixedWindow(1000, "day", start="calendar"),
    FixedWindow(1000, "week", "calendar", "Europe/Berlin", 6, name="weekly"),
    FixedWindow(1000, "second", "calendar", "Etc/GMT+5"),
    SlidingWindow(120, 60),
    SlidingWindow(120, 60, precision=Fraction(1, 4), name="api"),
    SlidingWindow(2**53 - 1, 2**49 / 1e6),
    SlidingLog(120, 60),
    SlidingLog(10_000, 0.25, name="exact"),
    SlidingWindowCounter(120, 60),
    SlidingWindowCounter(2**53 - 1, 2**49 / 1e6, name="rough"),
    LeakyBucket(10, 1, 20),
    LeakyBucket(0, timedelta(hours=1), 0, name="shut"),
    TokenBucket(10),
    TokenBucket(10, per=60, burst=20, name="b"),
    TokenBucket(0.29, burst=100),
    TokenBucket(Fraction(1, 3), per=7),
    TokenBucket(Decimal("0.001"), burst=3),
    TokenBucket(0),
    TokenBucket(2**80, 2**49 / 1e6, burst=5),
    TokenBucket(10, 60, 30, "interval"),
    TokenBucket(10, 60, refill="interval", start="epoch", name="hourly"),
    TokenBucket(10, 60, debt=5),
    TokenBucket(1, 2, refill="interval", debt=math.inf),
    TokenBucket(0.5, burst=3, debt=math.inf),
]
EACH = pytest.mark.parametrize("limit", EXAMPLES, ids=repr)


def type_name(value: object) -> str:
    return type(value).__name__


def units(bucket: TokenBucket) -> tuple[int, int]:
    """Return (units per token, refill in units per microsecond)."""
    _, _, units_per_token, refill_per_us, *_ = bucket._numbers
    return units_per_token, refill_per_us


class TestValue:
    @EACH
    def test_repr_is_python_that_builds_an_equal_limit(self, limit):
        names = {kind.__name__: kind for kind in (*ALGORITHMS.values(), Fraction)}
        assert eval(repr(limit), names) == limit

    @EACH
    def test_pickles_and_copies_to_an_equal_limit(self, limit):
        for twin in (pickle.loads(pickle.dumps(limit)), copy.copy(limit), copy.deepcopy(limit)):
            assert twin == limit
            assert hash(twin) == hash(limit)
            assert repr(twin) == repr(limit)
            assert twin._core_limit is not None

    @EACH
    def test_cannot_be_changed(self, limit):
        for attribute in ("limit", "per", "name", "_numbers", "anything"):
            with pytest.raises(AttributeError):
                setattr(limit, attribute, 1)
        with pytest.raises(AttributeError):
            del limit._name

    def test_is_equal_when_its_numbers_and_its_name_are(self):
        minute = [60, 60.0, Fraction(60), Decimal("60.0"), timedelta(minutes=1), 60.0000000001]
        assert len({SlidingWindow(5, per) for per in minute}) == 1
        assert len(set(EXAMPLES)) == len(EXAMPLES)
        assert TokenBucket(0.29) == TokenBucket(Fraction(29, 100)) == TokenBucket(Decimal("0.29"))

    @pytest.mark.parametrize(
        "other",
        [
            FixedWindow(6, 60),
            FixedWindow(5, 61),
            FixedWindow(5, 60, "epoch"),
            FixedWindow(5, 60, name="n"),
            SlidingWindow(5, 60),
            SlidingLog(5, 60),
            SlidingWindowCounter(5, 60),
            TokenBucket(5, 60),
            LeakyBucket(5, 60, 0),
            (5, 60),
            None,
        ],
    )
    def test_differs_when_anything_does(self, other):
        assert FixedWindow(5, 60) != other

    def test_differs_when_the_calendar_does(self):
        assert FixedWindow(5, "week", "calendar") == FixedWindow(5, "week", "calendar", "UTC", 0)
        calendars = [("day", "UTC"), ("hour", "UTC"), ("day", "Asia/Gaza"), ("week", "UTC")]
        limits = {FixedWindow(5, unit, "calendar", zone) for unit, zone in calendars}
        limits |= {FixedWindow(5, "week", "calendar", "UTC", day) for day in range(1, 7)}
        assert len(limits) == 10

    def test_differs_when_the_refill_does(self):
        buckets = [
            TokenBucket(5, 60),
            TokenBucket(5, 60, refill="interval"),
            TokenBucket(5, 60, refill="interval", start="epoch"),
            TokenBucket(5, 60, debt=1),
            TokenBucket(5, 60, refill="interval", debt=1),
        ]
        assert len(set(buckets)) == 5
        assert TokenBucket(5, 1e-6) != TokenBucket(5, 1e-6, refill="interval")

    def test_repr_is_short(self):
        assert repr(FixedWindow(5, timedelta(minutes=1))) == "FixedWindow(5, per=60)"
        assert repr(FixedWindow(5, 0.5, "epoch")) == "FixedWindow(5, per=0.5, start='epoch')"
        assert repr(SlidingWindow(5, 60, name="n")) == "SlidingWindow(5, per=60, name='n')"
        assert repr(SlidingWindow(5, 60, 1)) == "SlidingWindow(5, per=60, precision=1)"
        assert repr(SlidingLog(5, 0.5)) == "SlidingLog(5, per=0.5)"
        assert repr(SlidingWindowCounter(5, 60)) == "SlidingWindowCounter(5, per=60)"
        assert repr(LeakyBucket(5, 60, 0)) == "LeakyBucket(5, per=60, capacity=0)"
        assert repr(TokenBucket(0.5, burst=3)) == "TokenBucket(0.5, per=1, burst=3)"
        assert repr(TokenBucket(5, refill="interval", start="epoch", debt=math.inf)) == (
            "TokenBucket(5, per=1, refill='interval', debt=float('inf'), start='epoch')"
        )
        assert repr(FixedWindow(5, "day", "calendar")) == "FixedWindow(5, per='day', start='calendar')"
        assert repr(FixedWindow(5, "week", "calendar", "Asia/Gaza", 6)) == (
            "FixedWindow(5, per='week', start='calendar', timezone='Asia/Gaza', week_start=6)"
        )


class TestAttributes:
    def test_of_a_fixed_window(self):
        limit = FixedWindow(5, 60, "epoch", name="n")
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
    def test_of_a_calendar_window(self, unit, window):
        limit = FixedWindow(5, unit, start="calendar", timezone="Europe/Berlin", week_start=6)
        assert (limit.algorithm, limit.limit, limit.per, limit.start) == ("fixed_window", 5, unit, "calendar")
        assert (limit.timezone, limit.week_start) == ("Europe/Berlin", 6)
        assert (limit.quota, limit.window) == (5, window)
        assert limit._numbers == (5, 0, 2)

    def test_of_a_sliding_log(self):
        limit = SlidingLog(120, 60)
        assert (limit.algorithm, limit.limit, limit.per) == ("sliding_log", 120, 60)
        assert (limit.quota, limit.window) == (120, 60.0)
        assert limit._numbers == (120, 60_000_000)

    def test_of_a_sliding_window_counter(self):
        limit = SlidingWindowCounter(120, 60)
        assert (limit.algorithm, limit.limit, limit.per) == ("sliding_window_counter", 120, 60)
        assert (limit.quota, limit.window) == (120, 120.0)
        assert limit._numbers == (120, 60_000_000)

    def test_of_a_leaky_bucket(self):
        limit = LeakyBucket(10, 2, 31)
        assert (limit.algorithm, limit.rate, limit.per, limit.capacity) == ("leaky_bucket", 10, 2, 31)
        assert (limit.quota, limit.window) == (41, 10.0)
        assert limit._numbers == (10, 2_000_000, 31)

    def test_of_a_leaky_bucket_that_never_drains(self):
        assert (LeakyBucket(0, 1, 0).quota, LeakyBucket(0, 1, 0).window) == (0, 0.0)

    def test_of_a_sliding_window(self):
        limit = SlidingWindow(120, 60)
        assert (limit.algorithm, limit.limit, limit.per) == ("sliding_window", 120, 60)
        assert (limit.precision, limit.quota, limit.window) == (1.2, 120, 61.2)
        assert limit._numbers == (120, 60_000_000, 1_200_000)

    def test_of_a_token_bucket(self):
        limit = TokenBucket(10, per=2, burst=30)
        assert (limit.algorithm, limit.rate, limit.per, limit.burst) == ("token_bucket", 10, 2, 30)
        assert (limit.refill, limit.debt, limit.start) == ("continuous", 0, "first")
        assert (limit.quota, limit.window) == (30, 6.0)
        assert limit._numbers == (30, 2_000_000, 200_000, 1, 1, 0, 0)

    def test_of_a_token_bucket_refilled_by_the_interval(self):
        limit = TokenBucket(10, per=2, burst=31, refill="interval", start="epoch", debt=7)
        assert (limit.algorithm, limit.rate, limit.per, limit.burst) == ("token_bucket", 10, 2, 31)
        assert (limit.refill, limit.debt, limit.start) == ("interval", 7, "epoch")
        assert (limit.quota, limit.window) == (31, 8.0)
        assert limit._numbers == (31, 2_000_000, 1, 10, 2_000_000, 1, 7)

    def test_of_a_bucket_that_never_refills(self):
        assert (TokenBucket(0).burst, TokenBucket(0).window, TokenBucket(0)._numbers) == (
            0,
            0.0,
            (0, 1_000_000, 1, 0, 1, 0, 0),
        )
        shut = TokenBucket(0, refill="interval")
        assert (shut.burst, shut.window, shut._numbers) == (0, 0.0, (0, 1_000_000, 1, 0, 1_000_000, 0, 0))

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
            (FixedWindow(9, "day", "calendar"), "9-per-day"),
            (FixedWindow(9, "hour", "calendar", "Asia/Gaza"), "9-per-hour-Asia.Gaza"),
            (SlidingLog(120, 60), "120-per-60s"),
            (SlidingWindowCounter(120, 60), "120-per-60s"),
            (LeakyBucket(10, 60, 5), "10-per-60s-queue-5"),
        ],
    )
    def test_a_label_is_the_name_or_says_it_all(self, limit, label):
        assert limit.label == label

    @EACH
    def test_a_label_can_stand_in_a_header_and_a_key(self, limit):
        assert 1 <= len(limit.label) <= 64
        assert limit.label.isascii()
        assert all(c.isalnum() or c in "_.-" for c in limit.label)

    def test_of_extreme_buckets_can_stand_in_a_header(self):
        longest = (2**49 - 1) / 1e6
        for limit in (
            LeakyBucket(1, longest, 2**53 - 2),
            TokenBucket(1, longest, 2**53 - 1, "interval"),
        ):
            assert policy_field([Item(limit.label, limit.quota, limit.window)]) == (
                f'"{limit.label}";q={min(limit.quota, 10**15 - 1)};w=9007199255'
            )

    def test_even_an_extreme_label_is_a_label(self):
        for limit in (
            SlidingWindow(2**53 - 1, (2**49 - 1) / 1e6),
            TokenBucket(2**53 - 1, 1e-6),
            TokenBucket(2**80, 2**49 / 1e6, burst=2**53 - 1),
            TokenBucket(Fraction(1, 10**9), per=1),
            LeakyBucket(2**53 - 2, (2**49 - 1) / 1e6, 1),
            LeakyBucket(1, (2**49 - 1) / 1e6, 2**53 - 2),
            FixedWindow(2**53 - 1, "second", "calendar", "America/Argentina/ComodRivadavia"),
            FixedWindow(1, "month", "calendar", "Etc/GMT+12"),
            FixedWindow(1, "week", "calendar", "America/Port-au-Prince", 3),
        ):
            assert len(limit.label) <= 64
            assert all(c.isalnum() or c in "_.-" for c in limit.label)


class TestCounts:
    @WINDOWS
    @pytest.mark.parametrize("most", [0, 1, 2**31, 2**53 - 1])
    def test_whole_numbers_below_2_to_the_53_are_fine(self, kind, most):
        assert kind(most, 1).limit == most

    @KINDS
    @pytest.mark.parametrize(
        "wrong",
        [-1, 2**53, 10**5000, 1.5, 5.0, True, False, "5", None, [5], math.nan, math.inf],
        ids=type_name,
    )
    def test_anything_else_is_refused_naming_the_argument(self, kind, wrong):
        argument = {TokenBucket: "burst", queueless: "rate"}.get(kind, "limit")
        if kind is TokenBucket and wrong is None:
            return
        with pytest.raises(InvalidLimit, match=f"^{argument} "):
            kind(1, 1, wrong) if argument == "burst" else kind(wrong, 1)

    @pytest.mark.parametrize("most", [0, 1, 10_000])
    def test_of_a_log_go_up_to_ten_thousand(self, most):
        assert SlidingLog(most, 1).limit == most

    @pytest.mark.parametrize("wrong", [10_001, 2**53 - 1])
    def test_of_a_log_go_no_further(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^limit .* 10000"):
            SlidingLog(wrong, 1)

    def test_a_refusal_shows_the_value(self):
        with pytest.raises(InvalidLimit, match="'five'"):
            FixedWindow("five", 60)
        with pytest.raises(InvalidLimit, match=r"-3\b"):
            SlidingWindow(-3, 60)

    def test_what_counts_like_an_int_is_one(self):
        class Index:
            def __index__(self) -> int:
                return 7

        assert FixedWindow(Index(), 60) == FixedWindow(7, 60)


class TestDurations:
    @pytest.mark.parametrize(
        ("seconds", "us"),
        [
            (1, 1_000_000),
            (0.1, 100_000),
            (1e-6, 1),
            (0.000_001_4, 1),
            (0.000_001_6, 2),
            (Fraction(1, 3), 333_333),
            (Fraction(2, 3), 666_667),
            (Decimal("0.0000007"), 1),
            (Decimal("1E+3"), 1_000_000_000),
            (timedelta(hours=1, microseconds=1), 3_600_000_001),
            (4_294_967.297_001, 4_294_967_297_001),
            (2**49 / 1e6, 2**49),
            (Fraction(2**49, 10**6), 2**49),
        ],
    )
    @KINDS
    def test_are_rounded_to_the_nearest_microsecond(self, kind, seconds, us):
        assert kind(1, seconds)._numbers[1] == us

    @pytest.mark.parametrize(
        "wrong",
        [
            0,
            0.0,
            -1,
            -0.5,
            4e-7,
            Decimal("1E-9999999"),
            Fraction(1, 10**9),
            timedelta(0),
            timedelta(seconds=-1),
            Fraction(2**49 + 1, 10**6),
            10**5000,
            Decimal("1E+99999999"),
            1e300,
            timedelta.max,
            math.nan,
            math.inf,
            -math.inf,
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            True,
            "60",
            b"60",
            None,
            1j,
            (60,),
        ],
        ids=type_name,
    )
    @KINDS
    def test_anything_else_is_refused_naming_the_argument(self, kind, wrong):
        with pytest.raises(InvalidLimit, match="per"):
            kind(1, wrong)

    @KINDS
    @given(us=st.integers(1, 2**49))
    def test_read_back_as_the_microseconds_they_are(self, kind, us):
        limit = kind(1, Fraction(us, 10**6))
        assert kind(1, limit.per)._numbers == limit._numbers


class TestNames:
    @KINDS
    @pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 64])
    def test_of_up_to_64_plain_characters_are_fine(self, kind, name):
        assert kind(1, 1, name=name).name == name

    @KINDS
    @pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a:b", "é", "a\n", "{a}", b"a", 5, True])
    def test_of_anything_else_are_refused(self, kind, name):
        with pytest.raises(InvalidLimit, match="name"):
            kind(1, 1, name=name)

    @KINDS
    def test_are_given_by_keyword(self, kind):
        by_place = {
            FixedWindow: ("first", "UTC", 0),
            SlidingWindow: (None,),
            TokenBucket: (1, "continuous", 0, "first"),
            queueless: (0,),
        }
        with pytest.raises(TypeError):
            kind(1, 1, *by_place.get(kind, ()), "name")


class TestStart:
    @pytest.mark.parametrize("start", ["", "First", "day", None, 0, True, ["first"], b"epoch"])
    def test_of_a_window_is_first_epoch_or_calendar(self, start):
        for per in (1, "day"):
            with pytest.raises(InvalidLimit, match=r"^start "):
                FixedWindow(1, per, start)

    @INTERVALS
    @pytest.mark.parametrize("start", ["", "First", "calendar", None, 0, True, ["first"]])
    def test_of_a_bucket_is_first_or_epoch(self, refill, start):
        with pytest.raises(InvalidLimit, match=r"^start "):
            TokenBucket(1, 1, refill=refill, start=start)

    def test_epoch_of_a_bucket_needs_intervals(self):
        with pytest.raises(InvalidLimit, match=r"^start='epoch'.* continuous"):
            TokenBucket(1, 1, start="epoch")


class TestCalendarWindows:
    @pytest.mark.parametrize("per", [60, 1, timedelta(days=1), "year", "days", "Day", "", None])
    def test_take_a_unit(self, per):
        with pytest.raises(InvalidLimit, match=r"^per "):
            FixedWindow(1, per, start="calendar")

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
    def test_alone_take_a_unit_a_time_zone_and_a_start_of_weeks(self, start, argument, arguments):
        with pytest.raises(InvalidLimit, match=f"^{argument} .*calendar"):
            FixedWindow(1, start=start, **arguments)

    def test_may_be_ruled_out_by_their_defaults(self):
        assert FixedWindow(1, 60, "first", "UTC", 0) == FixedWindow(1, 60)

    @pytest.mark.parametrize("wrong", ["Europe/Atlantis", "", None, b"UTC", "../UTC", 5])
    def test_refuse_an_unknown_time_zone_naming_it(self, wrong):
        with pytest.raises(InvalidLimit) as caught:
            FixedWindow(1, "day", "calendar", wrong)
        assert str(caught.value).startswith("timezone ")
        assert repr(wrong) in str(caught.value)

    @pytest.mark.parametrize("wrong", [-1, 7, 0.0, True, None, "mon"])
    def test_refuse_another_day_of_the_week(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^week_start "):
            FixedWindow(1, "week", "calendar", week_start=wrong)


class TestLeakyBuckets:
    @pytest.mark.parametrize("wrong", [-1, 2**53, 1.5, 5.0, True, "5", None], ids=type_name)
    def test_refuse_another_capacity(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^capacity "):
            LeakyBucket(1, 1, wrong)

    def test_need_a_capacity(self):
        with pytest.raises(TypeError, match="capacity"):
            LeakyBucket(1, 1)

    def test_that_never_drain_hold_nothing(self):
        assert LeakyBucket(0, 1, 0).capacity == 0
        with pytest.raises(InvalidLimit, match=r"^rate "):
            LeakyBucket(0, 1, 1)

    def test_hold_less_than_2_to_the_53_together_with_the_rate(self):
        assert LeakyBucket(2**52, 1, 2**52 - 1).quota == 2**53 - 1
        with pytest.raises(InvalidLimit, match=r"^capacity "):
            LeakyBucket(2**52, 1, 2**52)


class TestIntervals:
    @pytest.mark.parametrize("refill", ["", "Interval", "greedy", None, 0, True, ["interval"]])
    def test_are_asked_for_by_name(self, refill):
        with pytest.raises(InvalidLimit, match=r"^refill "):
            TokenBucket(1, 1, refill=refill)

    @pytest.mark.parametrize("wrong", [0.5, 1.5, Fraction(1, 3), Decimal("2.5"), 2**53, 1e300])
    def test_bring_whole_tokens(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^rate "):
            TokenBucket(wrong, 1, burst=1, refill="interval")

    @pytest.mark.parametrize("rate", [3, 3.0, Fraction(3), Decimal("3.00")])
    def test_know_a_whole_number_in_any_dress(self, rate):
        assert TokenBucket(rate, 1, refill="interval")._numbers == (3, 1_000_000, 1, 3, 1_000_000, 0, 0)

    @settings(deadline=None)
    @given(rate=st.integers(1, 2**53 - 1), per_us=st.integers(1, 2**49), burst=st.integers(0, 2**53 - 1))
    def test_fit_whatever_the_numbers(self, rate, per_us, burst):
        bucket = TokenBucket(rate, Fraction(per_us, 10**6), burst, "interval")
        assert bucket._numbers == (burst, per_us, 1, rate, per_us, 0, 0)
        assert bucket.window == min(-(-burst // rate) * per_us, 2**53 - 1) / 1e6

    def test_that_bring_nothing_need_an_empty_bucket(self):
        with pytest.raises(InvalidLimit, match=r"^rate "):
            TokenBucket(0, 1, burst=1, refill="interval")


class TestDebts:
    @INTERVALS
    @pytest.mark.parametrize(
        "wrong",
        [-1, 1.5, 5.0, True, False, "5", None, math.nan, -math.inf, Decimal("Infinity"), 2**53],
        ids=type_name,
    )
    def test_are_whole_numbers_or_infinite(self, refill, wrong):
        with pytest.raises(InvalidLimit, match=r"^debt "):
            TokenBucket(1, 1, refill=refill, debt=wrong)

    @INTERVALS
    @pytest.mark.parametrize("debt", [1, 2**52, math.inf])
    def test_are_never_paid_at_a_rate_of_zero(self, refill, debt):
        assert TokenBucket(0, refill=refill, debt=0).debt == 0
        with pytest.raises(InvalidLimit, match=r"^debt "):
            TokenBucket(0, refill=refill, debt=debt)

    def test_by_the_interval_fit_below_2_to_the_53_together_with_the_burst(self):
        assert TokenBucket(1, 1, 10, "interval", debt=2**53 - 11)._numbers[6] == 2**53 - 11
        with pytest.raises(InvalidLimit, match=r"^debt "):
            TokenBucket(1, 1, 10, "interval", debt=2**53 - 10)

    def test_that_leave_the_rate_exact_do_not_change_it(self):
        assert TokenBucket(10, 1, debt=90_071_992_537)._numbers == (
            10,
            10**6,
            100_000,
            1,
            1,
            0,
            90_071_992_537,
        )

    def test_without_an_exact_rate_bring_the_closest_below(self):
        # Only a token of 10**9 + 7 units makes this rate exact, and a billion of those is too much to owe.
        rate = Fraction(1_618_033_989, 10**9 + 7)
        alone, indebted = TokenBucket(rate, 1e-6, 1), TokenBucket(rate, 1e-6, 1, debt=10**9)
        assert units(alone) == (10**9 + 7, 1_618_033_989)
        units_per_token, refill = units(indebted)
        assert (1 + 10**9) * units_per_token < 2**53
        assert Fraction(refill, units_per_token) == largest_fraction_up_to(
            rate, 2**53 - 1, (2**53 - 1) // (1 + 10**9)
        )

    def test_too_large_for_the_rate_are_refused(self):
        assert TokenBucket(1, 3600, burst=1).debt == 0
        for debt in (2_501_999, 2**40, 2**53 - 1, 2**53 - 2):
            with pytest.raises(InvalidLimit, match=r"^debt "):
                TokenBucket(1, 3600, burst=1, debt=debt)
        assert TokenBucket(1, 3600, burst=1, debt=2_501_998).debt == 2_501_998

    def test_do_not_excuse_a_rate_that_fits_nowhere(self):
        for debt in (0, 1, 2**52, math.inf):
            with pytest.raises(InvalidLimit, match=r"^rate "):
                TokenBucket(1, 2**49 / 1e6, 16, debt=debt)

    @INTERVALS
    @settings(deadline=None)
    @given(rate=st.integers(1, 10**9), per_us=st.integers(1, 2**40), burst=st.integers(0, 2**20))
    def test_that_are_infinite_are_the_largest_that_fits(self, refill, rate, per_us, burst):
        per = Fraction(per_us, 10**6)
        try:
            endless = TokenBucket(rate, per, burst, refill, math.inf)
        except InvalidLimit:
            with pytest.raises(InvalidLimit, match=r"^rate "):
                TokenBucket(rate, per, burst, refill)
            return
        size, _, units_per_token, *_, most = endless._numbers
        assert (size + most) * units_per_token < 2**53 <= (size + most + 1) * units_per_token
        assert endless.debt == math.inf
        assert endless._numbers[:6] == TokenBucket(rate, per, burst, refill)._numbers[:6]
        assert endless == TokenBucket(rate, per, burst, refill, most)


class TestPrecision:
    @pytest.mark.parametrize(
        ("us", "precision_us"),
        [
            (60_000_000, 1_200_000),
            (1_000_000, 20_000),
            (7, 1),
            (1, 1),
            (53, 53),
            (94, 2),
            (97 * 49, 97),
            (999_983, 999_983),
            (2**49, 2**44),
        ],
    )
    def test_defaults_to_the_finest_of_at_most_50_blocks(self, us, precision_us):
        assert SlidingWindow(1, Fraction(us, 10**6))._numbers[2] == precision_us

    @given(us=st.integers(1, 2**49))
    def test_by_default_divides_whatever_the_period(self, us):
        _, period, precision = SlidingWindow(1, Fraction(us, 10**6))._numbers
        assert period % precision == 0
        assert period // precision == max(n for n in range(1, 51) if us % n == 0)

    def test_may_be_as_coarse_as_the_period_or_as_fine_as_a_4096th(self):
        assert SlidingWindow(1, 4096, 4096).window == 8192.0
        assert SlidingWindow(1, 4096, 1).precision == 1
        assert SlidingWindow(1, 10, timedelta(seconds=2.5)).precision == 2.5

    @pytest.mark.parametrize(
        "wrong", [0.3, 7, 20, 4e-7, 0, -1, math.nan, "1", True, 10 / 4097, Fraction(10, 5000)]
    )
    def test_that_does_not_divide_into_4096_blocks_at_most_is_refused(self, wrong):
        with pytest.raises(InvalidLimit, match="precision"):
            SlidingWindow(1, 10, wrong)


class TestRates:
    @pytest.mark.parametrize(
        ("rate", "per", "units_and_refill"),
        [
            (1, 1, (1_000_000, 1)),
            (10, 1, (100_000, 1)),
            (3, 1, (1_000_000, 3)),
            (0.29, 1, (100_000_000, 29)),
            (0.1, 1, (10_000_000, 1)),
            (Fraction(1, 3), 1, (3_000_000, 1)),
            (Decimal("2.50"), 60, (24_000_000, 1)),
            (3_000_000, 1, (1, 3)),
            (1e-3, 1, (1_000_000_000, 1)),
            (2**53 - 1, 1e-6, (1, 2**53 - 1)),
        ],
    )
    def test_that_fit_are_kept_exactly_in_lowest_terms(self, rate, per, units_and_refill):
        assert units(TokenBucket(rate, per, burst=1)) == units_and_refill

    @given(
        rate=st.fractions(min_value=Fraction(1, 10**9), max_value=10**9),
        per_us=st.integers(1, 2**40),
        burst=st.integers(1, 2**40),
    )
    def test_that_do_not_fit_become_the_closest_below_that_does_or_are_refused(self, rate, per_us, burst):
        true = rate / per_us
        try:
            units_per_token, refill = units(TokenBucket(rate, Fraction(per_us, 10**6), burst))
        except InvalidLimit:
            kept = largest_fraction_up_to(true, 2**53 - 1, (2**53 - 1) // burst)
            assert (true - kept) / true >= Fraction(1, 10**9)
            return
        assert burst * units_per_token < 2**53
        assert 0 < refill < 2**53
        assert math.gcd(units_per_token, refill) == 1
        assert 0 <= (true - Fraction(refill, units_per_token)) / true < Fraction(1, 10**9)

    def test_are_never_rounded_up(self):
        third = Fraction(1, 3) + Fraction(1, 10**30)
        units_per_token, refill = units(TokenBucket(third, 1e-6, burst=1))
        assert (units_per_token, refill) == (3, 1)
        assert units(TokenBucket(2**53, 1e-6, burst=1)) == (1, 2**53 - 1)
        just_below = Fraction(1, 3) - Fraction(1, 10**30)
        units_per_token, refill = units(TokenBucket(just_below, 1e-6, burst=1))
        assert Fraction(refill, units_per_token) < just_below

    @pytest.mark.parametrize(
        ("rate", "burst"),
        [(0, 0), (1, 1), (0.29, 1), (2.9, 2), (Fraction(7, 2), 3), (Decimal("1e-3"), 1), (10**6, 10**6)],
    )
    def test_are_the_default_burst_rounded_down_but_at_least_1_if_fractional(self, rate, burst):
        assert TokenBucket(rate).burst == burst

    def test_are_shown_as_asked_for(self):
        assert [TokenBucket(rate).rate for rate in (10, 0.29, Decimal("0.29"), Fraction(1, 3))] == [
            10,
            0.29,
            0.29,
            Fraction(1, 3),
        ]

    @pytest.mark.parametrize(
        "wrong",
        [
            -1,
            -0.1,
            math.nan,
            math.inf,
            Decimal("NaN"),
            True,
            "10",
            None,
            1j,
            timedelta(1),
            Decimal("1E+999999"),
        ],
        ids=repr,
    )
    def test_that_are_no_numbers_or_negative_are_refused(self, wrong):
        with pytest.raises(InvalidLimit, match="rate"):
            TokenBucket(wrong, burst=1)

    @pytest.mark.parametrize(
        ("rate", "per", "burst"),
        [(2**54, 1e-6, 1), (1e300, 1, 1), (1e-300, 1, 1), (1, 2**49 / 1e6, 16), (1, 3600, 2**53 - 1)],
    )
    def test_too_extreme_for_whole_numbers_below_2_to_the_53_are_refused(self, rate, per, burst):
        with pytest.raises(InvalidLimit, match="rate"):
            TokenBucket(rate, per, burst)

    def test_zero_needs_an_empty_bucket(self):
        assert TokenBucket(0, burst=0) == TokenBucket(0)
        with pytest.raises(InvalidLimit, match="rate"):
            TokenBucket(0, burst=1)

    def test_too_large_to_be_a_burst_need_one_of_their_own(self):
        with pytest.raises(InvalidLimit, match="burst"):
            TokenBucket(2**53)
        assert TokenBucket(2**53, burst=5).burst == 5


class TestLargestFraction:
    @given(
        true=st.fractions(min_value=0, max_value=60, max_denominator=60).filter(bool),
        most_numerator=st.integers(1, 12),
        most_denominator=st.integers(1, 12),
    )
    def test_is_the_best_of_all_that_are_small_enough(self, true, most_numerator, most_denominator):
        candidates = (
            Fraction(p, q) for q in range(1, most_denominator + 1) for p in range(most_numerator + 1)
        )
        best = max(candidate for candidate in candidates if candidate <= true)
        assert largest_fraction_up_to(true, most_numerator, most_denominator) == best
