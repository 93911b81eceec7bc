"""The blocks that sliding windows accept and refuse."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import SlidingWindow


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
def test_defaults_to_the_finest_of_at_most_50_blocks(us, precision_us):
    assert SlidingWindow(1, Fraction(us, 10**6))._numbers[2] == precision_us


@given(us=st.integers(1, 2**49))
def test_by_default_divides_whatever_the_period(us):
    _, period, precision = SlidingWindow(1, Fraction(us, 10**6))._numbers
    assert period % precision == 0
    assert period // precision == max(n for n in range(1, 51) if us % n == 0)


def test_may_be_as_coarse_as_the_period_or_as_fine_as_a_4096th():
    assert SlidingWindow(1, 4096, precision=4096).window == 8192.0
    assert SlidingWindow(1, 4096, precision=1).precision == 1
    assert SlidingWindow(1, 10, precision=timedelta(seconds=2.5)).precision == 2.5


@pytest.mark.parametrize(
    "wrong", [0.3, 7, 20, 4e-7, 0, -1, math.nan, "1", True, 10 / 4097, Fraction(10, 5000)]
)
def test_that_does_not_divide_into_4096_blocks_at_most_is_refused(wrong):
    with pytest.raises(InvalidLimit, match="precision"):
        SlidingWindow(1, 10, precision=wrong)
