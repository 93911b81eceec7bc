"""Token buckets refilled by the interval: what they accept and refuse."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import TokenBucket


@pytest.mark.parametrize("refill", ["", "Interval", "greedy", None, 0, True, ["interval"]])
def test_are_asked_for_by_name(refill):
    with pytest.raises(InvalidLimit, match=r"^refill "):
        TokenBucket(1, 1, refill=refill)


@pytest.mark.parametrize("wrong", [0.5, 1.5, Fraction(1, 3), Decimal("2.5"), 2**53, 1e300])
def test_bring_whole_tokens(wrong):
    with pytest.raises(InvalidLimit, match=r"^rate "):
        TokenBucket(wrong, 1, burst=1, refill="interval")


@pytest.mark.parametrize("rate", [3, 3.0, Fraction(3), Decimal("3.00")])
def test_know_a_whole_number_in_any_dress(rate):
    assert TokenBucket(rate, 1, refill="interval")._numbers == (3, 1_000_000, 1, 3, 1_000_000, 0, 0)


@settings(deadline=None)
@given(rate=st.integers(1, 2**53 - 1), per_us=st.integers(1, 2**49), burst=st.integers(0, 2**53 - 1))
def test_fit_whatever_the_numbers(rate, per_us, burst):
    bucket = TokenBucket(rate, Fraction(per_us, 10**6), burst=burst, refill="interval")
    assert bucket._numbers == (burst, per_us, 1, rate, per_us, 0, 0)
    assert bucket.window == min(-(-burst // rate) * per_us, 2**53 - 1) / 1e6


def test_that_bring_nothing_need_an_empty_bucket():
    with pytest.raises(InvalidLimit, match=r"^rate "):
        TokenBucket(0, 1, burst=1, refill="interval")
