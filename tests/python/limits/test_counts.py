"""The whole numbers that limits accept and refuse."""

from __future__ import annotations

import math
from inspect import signature

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow, SlidingLog, SlidingWindow

from .kinds import KINDS, WINDOWS, type_name


@WINDOWS
@pytest.mark.parametrize("most", [0, 1, 2**31, 2**53 - 1])
def test_whole_numbers_below_2_to_the_53_are_fine(kind, most):
    assert kind(most, 1).limit == most


@KINDS
@pytest.mark.parametrize(
    "wrong",
    [-1, 2**53, 10**5000, 1.5, 5.0, True, False, "5", None, [5], math.nan, math.inf],
    ids=type_name,
)
def test_anything_else_is_refused_naming_the_argument(kind, wrong):
    parameters = list(signature(kind).parameters)
    argument = "burst" if "burst" in parameters else parameters[0]
    if argument == "burst" and wrong is None:
        return
    with pytest.raises(InvalidLimit, match=f"^{argument} "):
        kind(1, 1, burst=wrong) if argument == "burst" else kind(wrong, 1)


@pytest.mark.parametrize("most", [0, 1, 10_000])
def test_of_a_log_go_up_to_ten_thousand(most):
    assert SlidingLog(most, 1).limit == most


@pytest.mark.parametrize("wrong", [10_001, 2**53 - 1])
def test_of_a_log_go_no_further(wrong):
    with pytest.raises(InvalidLimit, match=r"^limit .* 10000"):
        SlidingLog(wrong, 1)


def test_a_refusal_shows_the_value():
    with pytest.raises(InvalidLimit, match="'five'"):
        FixedWindow("five", 60)
    with pytest.raises(InvalidLimit, match=r"-3\b"):
        SlidingWindow(-3, 60)


def test_what_counts_like_an_int_is_one():
    class Index:
        def __index__(self) -> int:
            return 7

    assert FixedWindow(Index(), 60) == FixedWindow(7, 60)
