"""The RateLimit field, as the core formats it, against the same worked out from the decision's details."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import (
    Detail,
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    SlidingWindow,
    TokenBucket,
    _core,
)

ENFORCE, SHADOW, ON_REFUSAL = 0, 1, 2
LIMITS = [
    [FixedWindow(5, 10)],
    [SlidingWindow(3, 60), TokenBucket(4, per=1.5, burst=9)],
    [LeakyBucket(2, 7, capacity=3), FixedWindow(4, 3600), FixedWindow(2**45, 86400)],
]


def state(rows: list[Detail]) -> str:
    """Return what stands behind ``r=`` for one limit and all identifiers."""
    left = min(row.remaining for row in rows)
    waits = [row.retry_after for row in rows if not row.allowed]
    wait = max(waits, default=max(row.reset_after for row in rows if row.remaining == left))
    return f"{left}" if wait == math.inf else f"{left};t={math.ceil(round(wait, 6))}"


def field(limiters: list[Limiter], identifiers: list[str], decision: _core.Decision) -> str:
    rows = iter(decision.details)
    states = []
    for number, limiter in enumerate(limiters):
        by_identifier = [[next(rows) for _ in limiter.limits] for _ in identifiers]
        for place, of_limit in enumerate(zip(*by_identifier, strict=True)):
            states.append(f"{number}.{place}={state(list(of_limit))}")
    return ", ".join(states)


def keys(limiters: list[Limiter]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(f"{number}.{place}=" for place in range(len(limiter.limits)))
        for number, limiter in enumerate(limiters)
    )


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.floats(0, 30)), min_size=1, max_size=8),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
)
def test_each_limit_shows_who_binds(spent, identifiers):
    clock, store = ManualClock(1_700_000_000), MemoryStore()
    limiters = [Limiter(each, name=f"n{i}", store=store, clock=clock) for i, each in enumerate(LIMITS)]
    for identifier, cost, pause in spent:
        for limiter in limiters:
            limiter.hit(identifier, cost=cost)
        clock.advance(pause)
    rules = tuple((limiter, lambda: identifiers, 1, ENFORCE) for limiter in limiters)
    decision = _core._decide_request(rules, {}, tuple, ())
    assert _core._rate_field(keys(limiters), decision) == field(limiters, identifiers, decision)


def test_what_is_not_shown_leaves_no_trace():
    store = MemoryStore()
    one, two, three = (Limiter("5/minute", name=name, store=store) for name in ("one", "two", "three"))
    rules = ((one, str, 1, SHADOW), (two, str, 1, ENFORCE), (three, str, 1, ON_REFUSAL))
    decision = _core._decide_request(rules, {str: ("a",)}, tuple, ())
    assert _core._rate_field((None, ("two=",), None), decision).startswith("two=4;t=")
    assert _core._rate_field((None, None, None), decision) == ""


def test_integers_have_at_most_fifteen_digits():
    decision = Limiter(FixedWindow(2**52, 60), store=MemoryStore()).hit("a")
    assert _core._rate_field((("r=",),), decision).startswith("r=999999999999999;t=")


def test_what_can_never_pass_has_no_time():
    decision = Limiter("5/minute", store=MemoryStore()).hit("a", cost=6)
    assert _core._rate_field((("r=",),), decision) == "r=5"


@pytest.mark.parametrize("wrong", [(), (("a=", "b="),), ("a=",), (5,)])
def test_keys_that_do_not_fit_are_an_error(wrong):
    decision = Limiter("5/minute", store=MemoryStore()).hit("a")
    with pytest.raises((ValueError, TypeError)):
        _core._rate_field(wrong, decision)
