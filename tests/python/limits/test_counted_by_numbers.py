"""Limits that share their counts only with limits of the very same numbers.

docs/reference/flask.md, "What counts together".
"""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest

from overlimit import FixedWindow, Limiter, TokenBucket
from overlimit.limits import Limit

from .kinds import EXAMPLES


@pytest.mark.parametrize("limit", EXAMPLES, ids=repr)
def test_it_is_the_same_limit_with_a_count_of_its_own(limit: Limit):
    twin = limit.counted_by_numbers()
    assert (twin, repr(twin), str(twin), twin.label, twin.name) == (
        limit,
        repr(limit),
        str(limit),
        limit.label,
        limit.name,
    )
    assert twin._core_limit.tag != limit._core_limit.tag
    assert twin._core_limit.tag == limit.counted_by_numbers()._core_limit.tag
    assert pickle.loads(pickle.dumps(twin)) == copy.deepcopy(twin) == limit


@pytest.mark.parametrize("limit", [FixedWindow(10, 60), TokenBucket(10, 60, burst=20, name="x")], ids=repr)
def test_a_share_of_it_has_a_count_of_its_own_too(limit: Limit):
    counted = limit.counted_by_numbers().scaled(Fraction(1, 2))
    assert counted == limit.scaled(Fraction(1, 2))
    assert counted._core_limit.tag == limit.counted_by_numbers()._core_limit.tag
    assert counted._core_limit.tag != limit._core_limit.tag


def test_other_numbers_and_names_count_apart(build):
    limits = [
        FixedWindow(5, 60),
        FixedWindow(6, 60),
        FixedWindow(5, 60, name="n"),
        TokenBucket(5, 60, burst=7),
        TokenBucket(5, 60, burst=8),
    ]
    tags = {limit.counted_by_numbers()._core_limit.tag for limit in limits}
    assert len(tags) == len(limits)
    counted: list[Limiter] = [build([limit.counted_by_numbers()], name="together") for limit in limits]
    for limiter, limit in zip(counted, limits, strict=True):
        assert [bool(limiter.hit("ann")) for _ in range(limit.quota + 1)] == [True] * limit.quota + [False]
