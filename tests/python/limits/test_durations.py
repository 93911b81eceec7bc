"""The periods that limits accept and refuse."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit

from .kinds import KINDS, type_name


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
def test_are_rounded_to_the_nearest_microsecond(kind, seconds, us):
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
def test_anything_else_is_refused_naming_the_argument(kind, wrong):
    with pytest.raises(InvalidLimit, match="per"):
        kind(1, wrong)


@KINDS
@given(us=st.integers(1, 2**49))
def test_read_back_as_the_microseconds_they_are(kind, us):
    limit = kind(1, Fraction(us, 10**6))
    assert kind(1, limit.per)._numbers == limit._numbers
