"""The header fields, formatted from bare numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from overlimit.http.fields import Item, policy_field, rate_state, retry_after_seconds


class Row(NamedTuple):
    allowed: bool
    remaining: int
    retry_after: float
    reset_after: float


def passed(remaining: int, reset_after: float = 60.0) -> Row:
    return Row(True, remaining, 0.0, reset_after)


def refused(remaining: int, retry_after: float, reset_after: float = 60.0) -> Row:
    return Row(False, remaining, retry_after, reset_after)


def test_a_policy_shows_quota_and_window():
    assert policy_field([Item("a", 10, 1.0), Item("b", 5, 0.25)]) == '"a";q=10;w=1, "b";q=5;w=1'


def test_a_name_is_quoted():
    assert Item('a"b\\c', 1, 1.0).key == r'"a\"b\\c"'


def test_integers_have_at_most_fifteen_digits():
    assert policy_field([Item("a", 2**53, 1.0)]) == '"a";q=999999999999999;w=1'
    assert rate_state([passed(2**53)]) == "999999999999999;t=60"


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([passed(3)], "3;t=60"),
        ([passed(3, 0.0)], "3;t=0"),
        ([passed(3, 0.000001)], "3;t=1"),
        ([passed(3, 20.0), passed(2, 10.0)], "2;t=10"),
        ([passed(2, 10.0), passed(2, 20.0)], "2;t=20"),
        ([passed(2, 20.0), passed(2, 10.0)], "2;t=20"),
        ([passed(1, 50.0), refused(0, 20.5)], "0;t=21"),
        ([refused(0, 20.5), passed(1, 50.0)], "0;t=21"),
        ([refused(0, 20.0), refused(3, 30.0)], "0;t=30"),
        ([refused(4, 30.0), passed(2)], "2;t=30"),
        ([refused(0, math.inf)], "0"),
        ([refused(5, math.inf), refused(0, 3.0)], "0"),
    ],
)
def test_a_state_is_that_of_whoever_binds(rows, state):
    assert rate_state(rows) == state


@pytest.mark.parametrize(
    ("seconds", "sent"),
    [(0.000001, 1), (1.0, 1), (1.000001, 2), (59.5, 60), (86400.0, 86400), (math.inf, None)],
)
def test_retry_after_is_rounded_up_and_at_least_one(seconds, sent):
    assert retry_after_seconds(refused(0, seconds)) == sent
