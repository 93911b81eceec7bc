"""The queues that leaky buckets accept and refuse."""

from __future__ import annotations

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import LeakyBucket

from .kinds import type_name


@pytest.mark.parametrize("wrong", [-1, 2**53, 1.5, 5.0, True, "5", None], ids=type_name)
def test_refuse_another_capacity(wrong):
    with pytest.raises(InvalidLimit, match=r"^capacity "):
        LeakyBucket(1, 1, capacity=wrong)


def test_need_a_capacity():
    with pytest.raises(TypeError, match="capacity"):
        LeakyBucket(1, 1)


def test_that_never_drain_hold_nothing():
    assert LeakyBucket(0, 1, capacity=0).capacity == 0
    with pytest.raises(InvalidLimit, match=r"^rate "):
        LeakyBucket(0, 1, capacity=1)


def test_hold_less_than_2_to_the_53_together_with_the_rate():
    assert LeakyBucket(2**52, 1, capacity=2**52 - 1).quota == 2**53 - 1
    with pytest.raises(InvalidLimit, match=r"^capacity "):
        LeakyBucket(2**52, 1, capacity=2**52)
