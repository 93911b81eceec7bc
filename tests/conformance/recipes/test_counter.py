"""The counter: its document's own traces, and none of the flaws that were found in it."""

from __future__ import annotations

import math

import pytest

from overlimit import InvalidLimit, SlidingWindow
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

    def test_1000_per_3_s_lets_1980_pass_in_3_seconds_where_a_sliding_window_does_not(self, make, build, at):
        counter, sliding = make(Counter, 1000, 3), build(SlidingWindow(1000, 3))
        passed = {"counter": [], "sliding": []}
        for second, load in enumerate([10, 10, 980, 900, 100, 0]):
            at(second)
            passed["counter"].append(sum(counter.hit("a") > 0 for _ in range(load)))
            passed["sliding"].append(sum(bool(sliding.hit("a")) for _ in range(load)))
        assert passed["counter"] == [10, 10, 980, 900, 100, 0]
        assert sum(passed["counter"][2:5]) == 1980
        assert all(sum(passed["sliding"][i : i + 3]) <= 1000 for i in range(6))
        assert passed["sliding"][:3] == [10, 10, 980]

    def test_a_limit_of_0_refuses_the_first(self, make, at):
        counter = make(Counter, 0, 1)
        for second in range(3):
            at(second)
            assert counter.hit("a") == -1

    def test_half_a_second_is_half_a_second(self, make, at):
        counter = make(Counter, 1, 0.5)
        assert counter.hit("a") == 1
        at(0.499999)
        assert counter.hit("a") == -1
        at(0.5)
        assert counter.hit("a") == 1

    def test_a_refused_call_does_not_lengthen_the_window(self, make, at):
        counter = make(Counter, 1, 1)
        assert counter.hit("a") == 1
        for ms in range(0, 1000, 100):
            at(ms / 1000)
            assert counter.hit("a") == -1
        at(1)
        assert counter.hit("a") == 1

    def test_a_clock_that_goes_back_neither_grants_nor_takes(self, make, at):
        counter = make(Counter, 2, 10)
        at(100)
        assert counter.hit("a") == 1
        at(0)
        assert [counter.hit("a"), counter.hit("a")] == [2, -1]
        at(109.999999)
        assert counter.hit("a") == -1
        at(110)
        assert counter.hit("a") == 1

    def test_never_more_than_its_limit_in_a_window_and_never_less(self, make, at):
        counter, answers = make(Counter, 7, 1), []
        for ms in range(0, 10_000, 10):
            at(ms / 1000)
            answers.append(counter.hit("a"))
        assert answers == ([1, 2, 3, 4, 5, 6, 7] + [-1] * 93) * 10

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
