"""The counter: its document's own traces, and none of the flaws that were found in it."""

from __future__ import annotations

import math

import pytest

from overlimit import InvalidLimit
from overlimit.recipes import Counter


class TestCounter:
    def test_says_how_many_have_passed_and_then_minus_one(self, make):
        counter = make(Counter, 3, 60)
        assert [counter.hit("a") for _ in range(5)] == [1, 2, 3, -1, -1]
        assert counter.hit("b") == 1

    def test_its_window_starts_with_the_first_call_and_ends_to_the_microsecond(self, make, at):
        counter = make(Counter, 2, 3)
        at(1.5)
        assert [counter.hit("a"), counter.hit("a")] == [1, 2]
        at(4.499999)
        assert counter.hit("a") == -1
        at(4.5)
        assert counter.hit("a") == 1
        at(7.499999)
        assert counter.hit("a") == 2
        at(7.5)
        assert counter.hit("a") == 1

    def test_a_limit_of_0_refuses_the_first(self, make, at):
        counter = make(Counter, 0, 1)
        for second in range(3):
            at(second)
            assert counter.hit("a") == -1

    @pytest.mark.parametrize("limit", [-1, 1.5, True, "5", None, 2**53])
    def test_a_limit_that_cannot_be(self, make, limit):
        with pytest.raises(InvalidLimit, match="limit"):
            make(Counter, limit, 60)

    @pytest.mark.parametrize("per", [0, -1, 1e-7, math.nan, math.inf, True, "day", None])
    def test_a_window_that_cannot_be(self, make, per):
        with pytest.raises(InvalidLimit, match="per"):
            make(Counter, 5, per)

    @pytest.mark.parametrize("key", ["", b""])
    def test_an_empty_key_is_an_error(self, make, key):
        with pytest.raises(ValueError, match="identifier"):
            make(Counter, 5, 60).hit(key)
