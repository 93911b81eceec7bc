"""The numbers that limits and penalties take, and what becomes of them."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits.penalty import Penalty
from overlimit.limits.token_bucket import largest_fraction_up_to

from .kinds import KINDS, REFILLS, WINDOWS

INTERVALS = pytest.mark.parametrize("refill", REFILLS)
IN_BERLIN = {"start": "calendar", "timezone": "Europe/Berlin", "week_start": 6}


@pytest.mark.parametrize(
    ("limit", "attributes", "numbers"),
    [
        (
            FixedWindow(5, 60, start="epoch", name="n"),
            {"limit": 5, "per": 60, "start": "epoch", "quota": 5, "window": 60.0, "name": "n", "label": "n"}
            | {"timezone": "UTC", "week_start": 0},
            (5, 60_000_000, 1),
        ),
        *(
            (
                FixedWindow(5, unit, **IN_BERLIN),
                {"limit": 5, "per": unit, "quota": 5, "window": window} | IN_BERLIN,
                (5, 0, 2),
            )
            for unit, window in {
                **{"second": 1, "minute": 60, "hour": 3_600, "day": 86_400},
                **{"week": 7 * 86_400, "month": 31 * 86_400},
            }.items()
        ),
        (
            SlidingWindow(120, 60),
            {"limit": 120, "per": 60, "precision": 1.2, "quota": 120, "window": 61.2},
            (120, 60_000_000, 1_200_000),
        ),
        (SlidingLog(120, 60), {"limit": 120, "per": 60, "quota": 120, "window": 60.0}, (120, 60_000_000)),
        (
            SlidingWindowCounter(120, 60),
            {"limit": 120, "per": 60, "quota": 120, "window": 120.0},
            (120, 60_000_000),
        ),
        (
            LeakyBucket(10, 2, capacity=31),
            {"rate": 10, "per": 2, "capacity": 31, "quota": 41, "window": 10.0},
            (10, 2_000_000, 31),
        ),
        (
            LeakyBucket(10, 2, capacity=31, burst=4),
            {"rate": 10, "per": 2, "capacity": 31, "burst": 4, "quota": 35, "window": 7.0},
            (10, 2_000_000, 31, 4),
        ),
        (LeakyBucket(0, 1, capacity=0), {"capacity": 0, "quota": 0, "window": 0.0}, (0, 1_000_000, 0)),
        (
            TokenBucket(10, per=2, burst=30),
            {"rate": 10, "per": 2, "burst": 30, "refill": "continuous", "debt": 0, "start": "first"}
            | {"quota": 30, "window": 6.0},
            (30, 2_000_000, 200_000, 1, 1, 0, 0),
        ),
        (
            TokenBucket(10, per=2, burst=31, refill="interval", start="epoch", debt=7),
            {"rate": 10, "per": 2, "burst": 31, "refill": "interval", "debt": 7, "start": "epoch"}
            | {"quota": 31, "window": 8.0},
            (31, 2_000_000, 1, 10, 2_000_000, 1, 7),
        ),
        (TokenBucket(0), {"burst": 0, "window": 0.0}, (0, 1_000_000, 1, 0, 1, 0, 0)),
        (
            TokenBucket(0, refill="interval"),
            {"burst": 0, "window": 0.0},
            (0, 1_000_000, 1, 0, 1_000_000, 0, 0),
        ),
        (
            TokenBucket(10, 1, debt=90_071_992_537),
            {"debt": 90_071_992_537},
            (10, 10**6, 100_000, 1, 1, 0, 90_071_992_537),
        ),
        *(
            (TokenBucket(rate, 1, refill="interval"), {"rate": 3}, (3, 1_000_000, 1, 3, 1_000_000, 0, 0))
            for rate in (3, 3.0, Fraction(3), Decimal("3.00"))
        ),
        (
            Penalty([2, 0.5, timedelta(minutes=1)], extend=True, forget_after=90),
            {"levels": (2, 0.5, 60), "extend": True, "forget_after": 90},
            ((2_000_000, 500_000, 60_000_000), True, 90_000_000),
        ),
        (
            Penalty(30),
            {"levels": (30,), "extend": False, "forget_after": None},
            ((30_000_000,), False, None),
        ),
        (Penalty(range(1, 3)), {"levels": (1, 2)}, ((1_000_000, 2_000_000), False, None)),
        (Penalty(1, forget_after=1e-6), {"forget_after": 1e-6}, ((1_000_000,), False, 1)),
        (Penalty([1e-6] * 64), {"levels": (1e-6,) * 64}, ((1,) * 64, False, None)),
    ],
    ids=lambda value: repr(value) if isinstance(value, (FixedWindow, Penalty)) else "",
)
def test_what_limits_and_penalties_tell_of_themselves(limit, attributes, numbers):
    assert {name: getattr(limit, name) for name in attributes} == attributes
    assert limit._numbers == numbers


@pytest.mark.parametrize("kind", WINDOWS)
def test_whole_numbers_below_2_to_the_53_or_the_length_of_a_log_are_fine(kind):
    class Index:
        def __index__(self) -> int:
            return 7

    for most in (0, 1, 10_000) if kind is SlidingLog else (0, 1, 2**31, 2**53 - 1):
        assert kind(most, 1).limit == most
    assert kind(Index(), 60) == kind(7, 60)


@pytest.mark.parametrize("kind", KINDS)
@given(us=st.integers(1, 2**49))
def test_periods_are_rounded_to_the_nearest_microsecond_and_read_back_as_they_are(kind, us):
    limit = kind(1, Fraction(us, 10**6))
    assert limit._numbers[1] == us
    assert kind(1, limit.per)._numbers == limit._numbers
    assert Penalty([Fraction(us, 10**6), 1])._numbers[0] == (us, 10**6)


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
    ],
)
def test_seconds_may_be_any_number_or_a_timedelta(seconds, us):
    assert {kind(1, seconds)._numbers[1] for kind in KINDS} == {us}
    assert Penalty(seconds)._numbers[0] == (us,)


@pytest.mark.parametrize(
    ("us", "precision_us"),
    [
        (60_000_000, 1_200_000),
        (7, 1),
        (1, 1),
        (53, 53),
        (94, 2),
        (97 * 49, 97),
        (999_983, 999_983),
        (2**49, 2**44),
    ],
)
def test_a_precision_defaults_to_the_finest_of_at_most_50_blocks(us, precision_us):
    assert SlidingWindow(1, Fraction(us, 10**6))._numbers[2] == precision_us


@given(us=st.integers(1, 2**49))
def test_a_precision_divides_whatever_the_period(us):
    _, period, precision = SlidingWindow(1, Fraction(us, 10**6))._numbers
    assert period % precision == 0
    assert period // precision == max(n for n in range(1, 51) if us % n == 0)


def test_a_precision_may_be_as_coarse_as_the_period_or_as_fine_as_a_4096th():
    assert SlidingWindow(1, 4096, precision=4096).window == 8192.0
    assert SlidingWindow(1, 4096, precision=1).precision == 1
    assert SlidingWindow(1, 10, precision=timedelta(seconds=2.5)).precision == 2.5


def units(bucket: TokenBucket) -> tuple[int, int]:
    """Return (units per token, refill in units per microsecond)."""
    _, _, units_per_token, refill_per_us, *_ = bucket._numbers
    return units_per_token, refill_per_us


class TestRatesOfTokenBuckets:
    @pytest.mark.parametrize(
        ("rate", "per", "units_and_refill"),
        [
            (1, 1, (1_000_000, 1)),
            (3, 1, (1_000_000, 3)),
            (0.29, 1, (100_000_000, 29)),
            (Fraction(1, 3), 1, (3_000_000, 1)),
            (Decimal("2.50"), 60, (24_000_000, 1)),
            (3_000_000, 1, (1, 3)),
            (1e-3, 1, (1_000_000_000, 1)),
            (2**53 - 1, 1e-6, (1, 2**53 - 1)),
            (2**53, 1e-6, (1, 2**53 - 1)),
            (Fraction(1, 3) + Fraction(1, 10**30), 1e-6, (3, 1)),
        ],
    )
    def test_that_fit_are_kept_exactly_in_lowest_terms_and_others_rounded_down(
        self, rate, per, units_and_refill
    ):
        assert units(TokenBucket(rate, per, burst=1)) == units_and_refill

    @given(
        rate=st.fractions(min_value=Fraction(1, 10**9), max_value=10**9),
        per_us=st.integers(1, 2**40),
        burst=st.integers(1, 2**40),
    )
    def test_that_do_not_fit_become_the_closest_below_that_does_or_are_refused(self, rate, per_us, burst):
        true = rate / per_us
        try:
            units_per_token, refill = units(TokenBucket(rate, Fraction(per_us, 10**6), burst=burst))
        except InvalidLimit:
            kept = largest_fraction_up_to(true, 2**53 - 1, (2**53 - 1) // burst)
            assert (true - kept) / true >= Fraction(1, 10**9)
            return
        assert burst * units_per_token < 2**53
        assert 0 < refill < 2**53
        assert math.gcd(units_per_token, refill) == 1
        assert 0 <= (true - Fraction(refill, units_per_token)) / true < Fraction(1, 10**9)

    def test_just_below_a_fraction_stay_below_it(self):
        just_below = Fraction(1, 3) - Fraction(1, 10**30)
        units_per_token, refill = units(TokenBucket(just_below, 1e-6, burst=1))
        assert Fraction(refill, units_per_token) < just_below

    @given(
        true=st.fractions(min_value=0, max_value=60, max_denominator=60).filter(bool),
        most_numerator=st.integers(1, 12),
        most_denominator=st.integers(1, 12),
    )
    def test_are_approximated_by_the_best_of_all_fractions_that_are_small_enough(
        self, true, most_numerator, most_denominator
    ):
        candidates = (
            Fraction(p, q) for q in range(1, most_denominator + 1) for p in range(most_numerator + 1)
        )
        best = max(candidate for candidate in candidates if candidate <= true)
        assert largest_fraction_up_to(true, most_numerator, most_denominator) == best

    @given(rate=st.integers(1, 2**53 - 1), per_us=st.integers(1, 2**49), burst=st.integers(0, 2**53 - 1))
    def test_by_the_interval_fit_whatever_the_numbers(self, rate, per_us, burst):
        bucket = TokenBucket(rate, Fraction(per_us, 10**6), burst=burst, refill="interval")
        assert bucket._numbers == (burst, per_us, 1, rate, per_us, 0, 0)
        assert bucket.window == min(-(-burst // rate) * per_us, 2**53 - 1) / 1e6

    @pytest.mark.parametrize(
        ("rate", "burst"),
        [(0, 0), (1, 1), (0.29, 1), (2.9, 2), (Fraction(7, 2), 3), (Decimal("1e-3"), 1), (10**6, 10**6)],
    )
    def test_are_the_default_burst_rounded_down_but_at_least_1_if_fractional(self, rate, burst):
        assert TokenBucket(rate).burst == burst

    def test_are_shown_as_asked_for(self):
        shown = [TokenBucket(rate).rate for rate in (10, 0.29, Decimal("0.29"), Fraction(1, 3))]
        assert shown == [10, 0.29, 0.29, Fraction(1, 3)]
        assert TokenBucket(2**53, burst=5).burst == 5


class TestDebtsOfTokenBuckets:
    def test_without_an_exact_rate_bring_the_closest_below(self):
        # Only a token of 10**9 + 7 units makes this rate exact, and a billion of those is too much to owe.
        rate = Fraction(1_618_033_989, 10**9 + 7)
        alone, indebted = TokenBucket(rate, 1e-6, burst=1), TokenBucket(rate, 1e-6, burst=1, debt=10**9)
        assert units(alone) == (10**9 + 7, 1_618_033_989)
        units_per_token, refill = units(indebted)
        assert (1 + 10**9) * units_per_token < 2**53
        assert Fraction(refill, units_per_token) == largest_fraction_up_to(
            rate, 2**53 - 1, (2**53 - 1) // (1 + 10**9)
        )

    def test_may_be_as_large_as_fits_beside_the_burst(self):
        assert TokenBucket(1, 3600, burst=1, debt=2_501_998).debt == 2_501_998
        assert TokenBucket(1, 1, burst=10, refill="interval", debt=2**53 - 11)._numbers[6] == 2**53 - 11
        assert LeakyBucket(2**52, 1, capacity=2**52 - 1).quota == 2**53 - 1

    @INTERVALS
    @given(rate=st.integers(1, 10**9), per_us=st.integers(1, 2**40), burst=st.integers(0, 2**20))
    def test_that_are_infinite_are_the_largest_that_fits(self, refill, rate, per_us, burst):
        per = Fraction(per_us, 10**6)
        try:
            endless = TokenBucket(rate, per, burst=burst, refill=refill, debt=math.inf)
        except InvalidLimit:
            with pytest.raises(InvalidLimit, match=r"^rate"):
                TokenBucket(rate, per, burst=burst, refill=refill)
            return
        size, _, units_per_token, *_, most = endless._numbers
        assert (size + most) * units_per_token < 2**53 <= (size + most + 1) * units_per_token
        assert endless.debt == math.inf
        assert endless._numbers[:6] == TokenBucket(rate, per, burst=burst, refill=refill)._numbers[:6]
        assert endless._numbers == TokenBucket(rate, per, burst=burst, refill=refill, debt=most)._numbers
