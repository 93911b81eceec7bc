"""The header fields, formatted from bare numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from overlimit.http.answering.fields import Item, policy_field, retry_after_seconds


class Refused(NamedTuple):
    retry_after: float


def test_a_policy_shows_quota_and_window():
    assert policy_field([Item("a", 10, 1.0), Item("b", 5, 0.25)]) == '"a";q=10;w=1, "b";q=5;w=1'


def test_a_name_is_quoted():
    assert Item('a"b\\c', 1, 1.0).key == r'"a\"b\\c"'


def test_integers_have_at_most_fifteen_digits():
    assert policy_field([Item("a", 2**53, 1.0)]) == '"a";q=999999999999999;w=1'


@pytest.mark.parametrize(
    ("seconds", "sent"),
    [(0.000001, 1), (1.0, 1), (1.000001, 2), (59.5, 60), (86400.0, 86400), (math.inf, None)],
)
def test_retry_after_is_rounded_up_and_at_least_one(seconds, sent):
    assert retry_after_seconds(Refused(seconds)) == sent
