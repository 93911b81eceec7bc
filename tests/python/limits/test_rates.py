"""The rates that token buckets accept, and how closely they are kept."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import TokenBucket
from overlimit.limits.rational import largest_fraction_up_to

from .token_buckets import units


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
def test_that_fit_are_kept_exactly_in_lowest_terms(rate, per, units_and_refill):
    assert units(TokenBucket(rate, per, burst=1)) == units_and_refill


@given(
    rate=st.fractions(min_value=Fraction(1, 10**9), max_value=10**9),
    per_us=st.integers(1, 2**40),
    burst=st.integers(1, 2**40),
)
def test_that_do_not_fit_become_the_closest_below_that_does_or_are_refused(rate, per_us, burst):
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


def test_are_never_rounded_up():
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
def test_are_the_default_burst_rounded_down_but_at_least_1_if_fractional(rate, burst):
    assert TokenBucket(rate).burst == burst


def test_are_shown_as_asked_for():
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
def test_that_are_no_numbers_or_negative_are_refused(wrong):
    with pytest.raises(InvalidLimit, match="rate"):
        TokenBucket(wrong, burst=1)


@pytest.mark.parametrize(
    ("rate", "per", "burst"),
    [(2**54, 1e-6, 1), (1e300, 1, 1), (1e-300, 1, 1), (1, 2**49 / 1e6, 16), (1, 3600, 2**53 - 1)],
)
def test_too_extreme_for_whole_numbers_below_2_to_the_53_are_refused(rate, per, burst):
    with pytest.raises(InvalidLimit, match="rate"):
        TokenBucket(rate, per, burst=burst)


def test_zero_needs_an_empty_bucket():
    assert TokenBucket(0, burst=0) == TokenBucket(0)
    with pytest.raises(InvalidLimit, match="rate"):
        TokenBucket(0, burst=1)


def test_too_large_to_be_a_burst_need_one_of_their_own():
    with pytest.raises(InvalidLimit, match="burst"):
        TokenBucket(2**53)
    assert TokenBucket(2**53, burst=5).burst == 5
