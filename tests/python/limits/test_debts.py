"""The debts that token buckets accept and refuse."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import TokenBucket
from overlimit.limits.rational import largest_fraction_up_to

from .kinds import type_name
from .token_buckets import INTERVALS, units


@INTERVALS
@pytest.mark.parametrize(
    "wrong",
    [-1, 1.5, 5.0, True, False, "5", None, math.nan, -math.inf, Decimal("Infinity"), 2**53],
    ids=type_name,
)
def test_are_whole_numbers_or_infinite(refill, wrong):
    with pytest.raises(InvalidLimit, match=r"^debt "):
        TokenBucket(1, 1, refill=refill, debt=wrong)


@INTERVALS
@pytest.mark.parametrize("debt", [1, 2**52, math.inf])
def test_are_never_paid_at_a_rate_of_zero(refill, debt):
    assert TokenBucket(0, refill=refill, debt=0).debt == 0
    with pytest.raises(InvalidLimit, match=r"^debt "):
        TokenBucket(0, refill=refill, debt=debt)


def test_by_the_interval_fit_below_2_to_the_53_together_with_the_burst():
    assert TokenBucket(1, 1, burst=10, refill="interval", debt=2**53 - 11)._numbers[6] == 2**53 - 11
    with pytest.raises(InvalidLimit, match=r"^debt "):
        TokenBucket(1, 1, burst=10, refill="interval", debt=2**53 - 10)


def test_that_leave_the_rate_exact_do_not_change_it():
    assert TokenBucket(10, 1, debt=90_071_992_537)._numbers == (
        10,
        10**6,
        100_000,
        1,
        1,
        0,
        90_071_992_537,
    )


def test_without_an_exact_rate_bring_the_closest_below():
    # Only a token of 10**9 + 7 units makes this rate exact, and a billion of those is too much to owe.
    rate = Fraction(1_618_033_989, 10**9 + 7)
    alone, indebted = TokenBucket(rate, 1e-6, burst=1), TokenBucket(rate, 1e-6, burst=1, debt=10**9)
    assert units(alone) == (10**9 + 7, 1_618_033_989)
    units_per_token, refill = units(indebted)
    assert (1 + 10**9) * units_per_token < 2**53
    assert Fraction(refill, units_per_token) == largest_fraction_up_to(
        rate, 2**53 - 1, (2**53 - 1) // (1 + 10**9)
    )


def test_too_large_for_the_rate_are_refused():
    assert TokenBucket(1, 3600, burst=1).debt == 0
    for debt in (2_501_999, 2**40, 2**53 - 1, 2**53 - 2):
        with pytest.raises(InvalidLimit, match=r"burst=1 and debt=\d+: lower debt$"):
            TokenBucket(1, 3600, burst=1, debt=debt)
    assert TokenBucket(1, 3600, burst=1, debt=2_501_998).debt == 2_501_998


def test_do_not_excuse_a_rate_that_fits_nowhere():
    for debt in (0, 1, 2**52, math.inf):
        with pytest.raises(InvalidLimit, match=r"^rate=1 cannot be kept .* burst=16: lower burst$"):
            TokenBucket(1, 2**49 / 1e6, burst=16, debt=debt)


@INTERVALS
@settings(deadline=None)
@given(rate=st.integers(1, 10**9), per_us=st.integers(1, 2**40), burst=st.integers(0, 2**20))
def test_that_are_infinite_are_the_largest_that_fits(refill, rate, per_us, burst):
    per = Fraction(per_us, 10**6)
    try:
        endless = TokenBucket(rate, per, burst=burst, refill=refill, debt=math.inf)
    except InvalidLimit:
        with pytest.raises(InvalidLimit, match=r"^rate "):
            TokenBucket(rate, per, burst=burst, refill=refill)
        return
    size, _, units_per_token, *_, most = endless._numbers
    assert (size + most) * units_per_token < 2**53 <= (size + most + 1) * units_per_token
    assert endless.debt == math.inf
    assert endless._numbers[:6] == TokenBucket(rate, per, burst=burst, refill=refill)._numbers[:6]
    assert endless._numbers == TokenBucket(rate, per, burst=burst, refill=refill, debt=most)._numbers
