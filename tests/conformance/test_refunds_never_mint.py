"""Whatever is hit, charged, refunded and settled, in whatever order: never is more left than if only what is
kept had been charged, each when it was; and while nothing has drained, exactly as much."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limit,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

from .all_algorithms import with_bursts
from .oracle import Oracle
from .strategies import START_US

BURSTING = with_bursts(1, 1, 1)
# Without the refunded hits, phases that begin at a first hit would begin elsewhere. So windows begin at the
# epoch here, and the hits on buckets that keep a phase are whole periods apart.
LIMITS: dict[str, Callable[[int], Limit]] = {
    "fixed_window": lambda most: FixedWindow(most, 7, start="epoch"),
    "sliding_window": lambda most: SlidingWindow(most, 6, precision=2),
    "sliding_log": lambda most: SlidingLog(most, 7),
    "sliding_window_counter": lambda most: SlidingWindowCounter(most, 7),
    **{name: lambda most, name=name: with_bursts(most, 1, 1)[name] for name in BURSTING},
    "token_bucket_in_fractions": lambda most: TokenBucket(2, per=3, burst=most),
    "token_bucket_with_debt": lambda most: TokenBucket(3, per=2, burst=most, debt=4),
    "interval": lambda most: TokenBucket(2, per=1, burst=most, refill="interval"),
    "epoch_interval": lambda most: TokenBucket(2, per=3, burst=most, refill="interval", start="epoch"),
    "leaky_bucket": lambda most: LeakyBucket(1, per=1, capacity=most - 1),
    "wide_leaky_bucket": lambda most: LeakyBucket(3, per=1, capacity=most - 3),
}
FASTER: dict[str, Callable[[int], Limit]] = {
    **{name: lambda rate, name=name: with_bursts(20, rate, 1)[name] for name in BURSTING},
    "token_bucket_in_fractions": lambda rate: TokenBucket(2 * rate, per=3, burst=20),
    "token_bucket_with_debt": lambda rate: TokenBucket(rate, per=2, burst=20, debt=4),
    "interval": lambda rate: TokenBucket(rate, per=1, burst=20, refill="interval"),
    "epoch_interval": lambda rate: TokenBucket(rate, per=3, burst=20, refill="interval", start="epoch"),
    "leaky_bucket": lambda rate: LeakyBucket(rate, per=1, capacity=20 - rate),
}
waits = st.sampled_from([0] * 6 + [1] * 4 + [2, 3, 5, 8])
costs = st.sampled_from([1, 1, 1, 2, 3, 5, 8])
steps = st.lists(st.tuples(waits, st.none() | st.integers(0, 9), costs), min_size=4, max_size=24)
"""Seconds to wait; then a hit of this cost, or a refund of one of the hits so far."""

PROVE = int(os.environ.get("PROVE", "1"))
relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))


class OfModel:
    """A policy on the model, which says what is left."""

    def __init__(self, limit: Limit) -> None:
        self.oracle = Oracle((limit,))

    def hit(self, second: int, cost: int) -> Any:
        return self.oracle.hit(START_US + second * 1_000_000, ["a"], cost)

    def charge(self, second: int, cost: int) -> Any:
        return self.oracle.charge(START_US + second * 1_000_000, ["a"], cost)

    def refund(self, second: int, decision: Any) -> None:
        self.oracle.refund(START_US + second * 1_000_000, decision)

    def settle(self, second: int, decision: Any, cost: int) -> Any:
        return self.oracle.settle(START_US + second * 1_000_000, decision, cost)

    def update(self, limit: Limit) -> None:
        self.oracle.update((limit,))

    def left(self, second: int) -> int:
        return self.oracle.peek(START_US + second * 1_000_000, ["a"], 0).remaining


def live(policy: Any, limit: Limit, life: list[tuple[int, int | None, int]]) -> None:
    now, kept = 0, []
    for wait, chosen, cost in life:
        now += wait
        if chosen is None:
            decision = policy.hit(now, cost)
            if decision.allowed:
                kept.append((now, cost, decision))
        elif kept:
            policy.refund(now, kept.pop(chosen % len(kept))[2])
            assert policy.left(now) <= left_of(limit, kept, now)
    assert policy.left(now) <= left_of(limit, kept, now)


def left_of(limit: Limit, kept: list[tuple[int, int, Any]], now: int) -> int:
    """What is left after the hits that were kept, and no others."""
    model = OfModel(limit)
    for second, cost, _ in kept:
        assert model.hit(second, cost).allowed
    return model.left(now)


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("limit", LIMITS)
@settings(relaxed, max_examples=20 * PROVE)
@given(life=steps, most=st.integers(4, 30))
def test_the_model_never_leaves_more_than_without_the_refunded_hits(limit, life, most):
    live(OfModel(LIMITS[limit](most)), LIMITS[limit](most), life)


charged_lives = st.lists(
    st.tuples(
        waits,
        st.none() | st.integers(0, 9),
        costs,
        st.sampled_from(["refund", "settle", "charge"]),
    ),
    min_size=4,
    max_size=24,
)
"""Seconds to wait; then a hit or a charge of this cost, or one so far is refunded or settled at it."""


def live_with_charges(policy: Any, limit: Limit, life: list[tuple[int, int | None, int, str]]) -> None:
    now, kept, final = 0, [], []
    for wait, chosen, cost, kind in life:
        now += wait
        if chosen is None or not kept:
            decision = policy.charge(now, cost) if kind == "charge" else policy.hit(now, cost)
            if decision.allowed or kind == "charge":
                kept.append((now, cost, decision))
            continue
        then, before, decision = kept.pop(chosen % len(kept))
        if kind == "refund":
            policy.refund(now, decision)
        else:
            assert policy.settle(now, decision, cost).cost == cost
            final.append((then, min(before, cost)))
            final.append((now, max(0, cost - before)))
        assert policy.left(now) <= left_of_charges(limit, [*final, *(each[:2] for each in kept)], now)


def left_of_charges(limit: Limit, kept: list[tuple[int, int]], now: int) -> int:
    model = OfModel(limit)
    for second, cost in sorted(kept):
        model.charge(second, cost)
    return model.left(now)


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("limit", LIMITS)
@settings(relaxed, max_examples=20 * PROVE)
@given(life=charged_lives, most=st.integers(4, 30))
def test_nor_does_the_model_with_charges_and_settlements(limit, life, most):
    live_with_charges(OfModel(LIMITS[limit](most)), LIMITS[limit](most), life)


def live_faster_and_faster(policy: Any, new_limit: Callable[[int], Limit], stages: Any) -> None:
    """Each stage has a rate of its own, at least that of the one before."""
    now, kept = 0, []
    rates = sorted(rate for rate, _ in stages)
    for stage, (_, life) in enumerate(stages):
        policy.update(new_limit(rates[stage]))
        for wait, chosen, cost in life:
            now += wait
            if chosen is None:
                decision = policy.hit(now, cost)
                if decision.allowed:
                    kept.append((now, cost, decision, stage))
            elif kept:
                policy.refund(now, kept.pop(chosen % len(kept))[2])
                assert policy.left(now) <= left_of_stages(new_limit, rates[: stage + 1], kept, now)


def left_of_stages(new_limit: Callable[[int], Limit], rates: list[int], kept: list[Any], now: int) -> int:
    model = OfModel(new_limit(1))
    for second, cost, _, stage in kept:
        model.update(new_limit(rates[stage]))
        assert model.hit(second, cost).allowed
    model.update(new_limit(rates[-1]))
    return model.left(now)


charged = st.lists(st.tuples(waits, st.none(), costs), min_size=2, max_size=8)
refunded = st.lists(
    st.tuples(waits, st.none() | st.integers(0, 9) | st.integers(0, 9), costs), min_size=4, max_size=12
)
rates = st.integers(1, 9)
stages = st.tuples(st.tuples(rates, charged), st.tuples(rates, refunded), st.tuples(rates, refunded))


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("limit", FASTER)
@settings(relaxed, max_examples=20 * PROVE)
@given(stages=stages)
def test_nor_does_the_model_after_updates_to_faster_rates(limit, stages):
    live_faster_and_faster(OfModel(FASTER[limit](1)), FASTER[limit], stages)


@pytest.mark.parametrize("limit", FASTER)
def test_what_has_drained_while_the_rate_was_faster_does_not_come_back(build, at, limit):
    limiter = build(FASTER[limit](1))
    charged = [limiter.hit("a", cost=5) for _ in range(2)]
    limiter.update(FASTER[limit](10))
    at(3)
    limiter.hit("a", cost=5)
    limiter.update(FASTER[limit](1))
    left = limiter.peek("a", cost=0).remaining
    for decision in charged:
        limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == left


@pytest.mark.parametrize("per", [2, 10, 30, 60, 3600, 7200])
@pytest.mark.parametrize("name", [None, "second"])
def test_of_equal_limits_each_is_refunded_by_its_own_rates(build, at, per, name):
    def limits(rate: int) -> list[TokenBucket]:
        return [TokenBucket(rate, per=per, burst=50), TokenBucket(100, per=per, burst=50, name=name)]

    limiter = build(limits(1))
    limiter.hit("a", cost=5)
    charged = limiter.hit("a", cost=3)
    at(per / 10)
    limiter.update(limits(2))
    limiter.hit("a", cost=2)
    limiter.refund(charged)
    assert [row.remaining for row in limiter.peek("a", cost=0).details] == [43, 48]


def test_what_a_bucket_without_a_rate_did_not_keep_does_not_come_back(build):
    window = FixedWindow(99, 60)
    limiter = build([TokenBucket(0, per=60), window])
    charged = limiter.charge("a", cost=3)
    limiter.update([TokenBucket(5, per=60), window])
    assert limiter.hit("a", cost=4)
    limiter.refund(charged)
    assert [row.remaining for row in limiter.peek("a", cost=0).details] == [1, 95]


def test_nor_does_what_drained_before_the_rate_was_taken_away(build, at):
    limiter = build(TokenBucket(5, per=60))
    charged = limiter.hit("a", cost=5)
    at(60)
    assert limiter.hit("a", cost=5)
    limiter.update(TokenBucket(0, per=60))
    limiter.refund(charged)
    limiter.update(TokenBucket(5, per=60))
    assert limiter.peek("a", cost=0).remaining == 0


@pytest.mark.parametrize("limit", LIMITS)
def test_far_from_empty_all_comes_back(limit):
    """Where earlier use outlasts what drains and what other refunds give back."""
    policy, limit = OfModel(LIMITS[limit](30)), LIMITS[limit](30)
    first = policy.hit(0, 20)
    held = [policy.hit(0, 1) for _ in range(6)]
    while held:
        second = 3 - len(held) // 3
        policy.refund(second, held.pop())
        kept = [(0, 20, first)] + [(0, 1, each) for each in held]
        assert policy.left(second) == left_of(limit, kept, second)


@pytest.mark.parametrize("limit", [TokenBucket(1, per=1, burst=100), LeakyBucket(1, per=1, capacity=99)])
def test_many_charges_in_the_place_of_one_that_was_refunded_have_drained(build, at, limit):
    limiter = build(limit)
    first = limiter.hit("a", cost=50)
    others = [limiter.hit("a") for _ in range(50)]
    limiter.refund(first)
    at(50)
    assert limiter.hit("a", cost=100)
    for decision in others:
        limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 0
    at(51)
    assert limiter.hit("a")
    assert not limiter.hit("a")


@pytest.mark.parametrize("refill", ["continuous", "interval"])
def test_what_refunds_gave_back_is_known_until_it_would_have_drained(build, at, refill):
    limiter = build(TokenBucket(1, per=1, burst=100, refill=refill))
    first, second = limiter.hit("a", cost=50), limiter.hit("a", cost=50)
    limiter.refund(second)
    at(50)
    for moment in range(50, 99, 7):
        at(moment)
        limiter.hit("a")
    at(99)
    assert limiter.hit("a", cost=100)
    limiter.refund(first)
    assert limiter.peek("a", cost=0).remaining == 0


@pytest.mark.parametrize("sooner", [False, True])
def test_after_the_units_have_changed_no_more_comes_back_than_is_certain(build, at, sooner):
    limiter = build(TokenBucket(1, per=1, burst=100))
    limiter.hit("a", cost=40)
    charged = limiter.hit("a", cost=20)
    if sooner:
        limiter.update(TokenBucket(1.5, per=1, burst=100))
        limiter.hit("a", cost=1)
        limiter.update(TokenBucket(1, per=1, burst=100))
        limiter.hit("a", cost=1)
    at(15)
    limiter.refund(charged)
    assert limiter.peek("a", cost=0).remaining == (100 - 62 + 15 if sooner else 100 - 60 + 15 + 20)
