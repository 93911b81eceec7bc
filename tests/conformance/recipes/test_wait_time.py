"""How long to wait after a refusal: enough, and not a unit too long."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from overlimit import FixedWindow, LeakyBucket, TokenBucket, hit_all
from overlimit.recipes import wait_time


class TestWaitTime:
    def test_is_enough_and_not_a_unit_too_long(self, build, clock):
        limiter = build(TokenBucket(0.29, per=1, burst=100))
        limiter.hit("a", cost=100)
        for _ in range(50):
            wait = wait_time(limiter.peek("a", cost=7))
            assert not limiter.peek("a", cost=8)
            clock.advance(wait - 1)
            assert not limiter.hit("a", cost=7)
            clock.advance(1)
            assert limiter.hit("a", cost=7)

    @pytest.mark.parametrize(
        ("unit", "wait"),
        [
            (1, 4),
            (1.0, 4),
            (2, 2),
            (60, 1),
            (0.001, 3001),
            (0.1, 31),
            (1e-6, 3_000_001),
            (Fraction(1, 3), 10),
            (Decimal("0.5"), 7),
            (datetime.timedelta(milliseconds=1), 3001),
            (10**400, 1),
            (1e300, 1),
        ],
    )
    def test_is_rounded_up_in_any_unit(self, build, at, unit, wait):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        at(6.999999)
        assert limiter.peek("a").retry_after == 3.000001
        assert wait_time(limiter.hit("a"), unit) == wait

    def test_is_minus_one_for_what_never_passes(self, build):
        limiter = build([FixedWindow(5, 60), TokenBucket(3, 1)])
        assert wait_time(limiter.hit("a", cost=4)) == -1
        assert wait_time(limiter.hit("a", cost=10**30), unit=0.001) == -1
        assert wait_time(build(FixedWindow(0, 60), name="none").hit("a")) == -1

    def test_is_0_for_a_cost_of_0_and_for_an_admitted_call_with_a_delay(self, build):
        limiter = build(LeakyBucket(1, per=10, capacity=5))
        assert [wait_time(limiter.hit("a", cost=cost)) for cost in (0, 1, 1)] == [0, 0, 0]

    def test_reads_the_decisions_of_hit_all_and_of_locks(self, build):
        one, other = build(FixedWindow(1, 60), name="one"), build(FixedWindow(1, 90), name="other")
        assert wait_time(hit_all([(one, "a", 1), (other, "a", 1)])) == 0
        assert wait_time(hit_all([(one, "a", 1), (other, "a", 1)])) == 90
        one.lock("b", 7.5)
        assert wait_time(one.hit("b")) == 8

    @pytest.mark.parametrize(
        "unit",
        [
            0,
            0.0,
            -1,
            -1e-9,
            math.nan,
            math.inf,
            -math.inf,
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
        ],
    )
    def test_a_unit_that_is_no_length_is_a_value_error(self, build, unit):
        limiter = build(FixedWindow(1, 60))
        for decision in (limiter.hit("a"), limiter.hit("a"), limiter.hit("a", cost=2)):
            with pytest.raises(ValueError, match="unit"):
                wait_time(decision, unit)

    @pytest.mark.parametrize("unit", [True, "1", None, [1]])
    def test_a_unit_that_is_no_number_is_a_type_error(self, build, unit):
        with pytest.raises(TypeError, match="unit"):
            wait_time(build(FixedWindow(1, 60)).hit("a"), unit)
