"""Numbers at and beyond every edge: each gets the defined answer, or an error that names the argument."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    hit_all,
)

from .all_algorithms import CALENDAR, in_debt, of_each_algorithm

PLAIN = of_each_algorithm(3, per=60) | CALENDAR
ALL = PLAIN | in_debt(2, debt=1, per=60)  # these admit 3 too
EVERY = list(ALL.values())

US = Fraction(1, 1_000_000)
LONGEST = 2**49 * US
TEN_YEARS = 3_652 * 86_400
LAST_INSTANT = (2**53 - 2**50) / 1e6
BAD_READINGS = [
    *(-1e-6, -1.0, -2e9, -(10**400), -math.inf),
    *(LAST_INSTANT + 1e-5, 9.1e9, 1e10, 2.0**60, 1e300, 10**400, math.nan, math.inf),
]
NO_NUMBERS = ["now", None, [1.0], 1j]

KINDS = {
    "fixed_window": FixedWindow,
    "epoch": lambda most, per: FixedWindow(most, per, start="epoch"),
    "sliding_window": SlidingWindow,
    "one_block": lambda most, per: SlidingWindow(most, per, precision=per),
    "sliding_log": SlidingLog,
    "sliding_window_counter": SlidingWindowCounter,
    "token_bucket": TokenBucket,
    "interval": lambda most, per: TokenBucket(most, per, refill="interval"),
    "epoch_interval": lambda most, per: TokenBucket(most, per, refill="interval", start="epoch"),
    "leaky_bucket": lambda most, per: LeakyBucket(most, per, capacity=0),
}
EACH_KIND = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


class Whole:
    """A whole number of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class TestCosts:
    def test_what_is_no_count_is_an_error_by_name_and_a_second_call_works(self, build):
        limiter = build(EVERY)
        for cost in (-1, -(2**53), -(2**64), True, False, 0.0, 1.5, math.nan, math.inf, "1", None, [1]):
            for call in (limiter.hit, limiter.peek, limiter.acquire):
                with pytest.raises((ValueError, TypeError), match="cost"):
                    call("a", cost=cost)
            with pytest.raises((ValueError, TypeError), match="cost"):
                hit_all([(limiter, "b", 1), (limiter, "a", cost)])
        assert [bool(limiter.hit("a")) for _ in range(5)] == [True] * 3 + [False] * 2
        assert limiter.hit("b", cost=3)

    def test_what_never_fits_is_never_and_charges_nothing_however_large(self, build):
        limiter = build(EVERY, penalty=Penalty(9))
        for cost in (4, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 10**100):
            for call in (limiter.hit, limiter.peek, limiter.acquire):
                refused = call("a", cost=cost)
                assert (refused.status, refused.retry_after, refused.cost) == ("never", math.inf, cost)
            assert hit_all([(limiter, "b", 1), (limiter, "a", cost)]).status == "never"
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True] * 3 + [False]
        assert limiter.hit("b", cost=3)

    def test_whole_numbers_of_other_libraries_count(self, build):
        limiter = build(list(PLAIN.values()))
        assert limiter.hit("a", cost=Whole(2)).remaining == 1
        assert not limiter.hit("a", cost=Whole(2))
        with pytest.raises(ValueError, match="cost"):
            limiter.hit("a", cost=Whole(-1))


class TestLimits:
    @EACH_KIND
    def test_zero_refuses_every_cost_for_ever_but_not_a_look(self, build, make):
        limiter = build(make(0, 60))
        for cost in (1, 2**53):
            refused = limiter.hit("a", cost=cost)
            assert (refused.status, refused.retry_after, refused.remaining) == ("never", math.inf, 0)
        assert limiter.hit("a", cost=0)

    @EACH_KIND
    @pytest.mark.parametrize("most", [10_000, 2**40, 2**53 - 1])
    def test_a_large_one_is_exact_to_the_last_unit_or_refused_by_name(self, build, make, most):
        try:
            limit = make(most, 1)
        except InvalidLimit as error:
            assert any(argument in str(error) for argument in ("limit", "burst", "rate"))  # noqa: PT017
            return
        limiter = build(limit)
        assert limiter.hit("a", cost=most - 1).remaining == 1
        assert limiter.hit("a", cost=2).status == "over"
        assert limiter.hit("a", cost=most + 1).status == "never"
        assert limiter.hit("a").remaining == 0
        refused = limiter.hit("a")
        assert refused.status == "over"
        assert 1e-6 <= refused.retry_after <= 2

    @EACH_KIND
    def test_lowered_below_what_was_used_it_refuses_even_nothing(self, build, make):
        limiter = build(make(5, 60))
        assert limiter.hit("a", cost=4)
        limiter.update(make(2, 60))
        refused = limiter.hit("a", cost=0)
        assert (refused.status, refused.remaining) == ("over", 0)
        assert refused.retry_after >= 1e-6


class TestPeriods:
    @EACH_KIND
    def test_from_a_microsecond_to_seventeen_years_the_wait_is_exact(self, build, make, clock):
        for per in (US, 2 * US, 1, TEN_YEARS, LONGEST - US, LONGEST):
            limiter = build(make(2, per), name=f"of-{float(per)}")
            clock.set(1_600_000_000)
            assert limiter.hit("a")
            assert limiter.hit("a")
            start = clock.now()
            refused = limiter.hit("a")
            assert refused.status == "over"
            assert 1e-6 <= refused.retry_after <= 2 * float(per)
            clock.set(start + refused.retry_after - 1e-6)
            assert limiter.hit("a").retry_after == 1e-6
            clock.advance(1e-6)
            assert limiter.hit("a")

    @EACH_KIND
    def test_any_other_is_invalid_by_name(self, make):
        for per in (
            0,
            -1,
            1e-7,
            LONGEST + US,
            1e300,
            -math.inf,
            math.inf,
            math.nan,
            "60",
            None,
            True,
            10**400,
        ):
            with pytest.raises(InvalidLimit, match="per"):
                make(3, per)


class TestClocks:
    def test_a_reading_that_is_no_time_is_an_error_by_name_and_a_second_call_works(self, store):
        readings: list[Any] = [1_700_000_000.0]
        limiter = Limiter(EVERY, name="default", store=store, clock=lambda: readings[-1])
        decision = limiter.hit("a")
        calls: list[Any] = [limiter.hit, limiter.peek, limiter.acquire, lambda who: limiter.lock(who, 1)]
        for readings[-1] in (*BAD_READINGS, *NO_NUMBERS):
            error = ValueError if readings[-1] in BAD_READINGS else TypeError
            for call in calls:
                with pytest.raises(error, match="clock"):
                    call("a")
        readings.append(1_700_000_000.0)
        assert limiter.hit("a")
        limiter.refund(decision)
        assert [bool(limiter.hit("a")) for _ in range(3)] == [True, True, False]

    def test_from_one_end_of_time_to_the_other_and_back_nothing_is_minted(self, build):
        clock = ManualClock(0)
        limiter = build(EVERY, clock=clock)
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
        clock.set(LAST_INSTANT - 1)
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True, True, True, False]
        for instant in (0, 1_700_000_000, LAST_INSTANT - 1):
            clock.set(instant)
            refused = limiter.hit("a")
            assert refused.status == "over"
            assert 1e-6 <= refused.retry_after <= refused.limit.window
        limiter.reset("a")
        clock.set(0)
        assert limiter.hit("a", cost=3)

    def test_durations_near_the_end_of_time_are_those_of_any_time(self, build):
        clock = ManualClock(1_699_999_200)
        limiter = build(EVERY, clock=clock)
        for instant in (0, 86_400 * 365, LAST_INSTANT - 86_400 * 2):
            clock.set(instant)
            limiter.hit("a", cost=3)
            for row in limiter.hit("a").details:
                assert 1e-6 <= row.retry_after <= row.limit.window
                assert row.retry_after <= row.reset_after <= 2 * row.limit.window
            limiter.reset("a")
