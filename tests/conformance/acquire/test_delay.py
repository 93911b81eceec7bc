"""The delay of a leaky bucket is waited for too, and foreseen."""

from __future__ import annotations

import itertools
from concurrent.futures import wait

import pytest

from overlimit import LeakyBucket

from .waiters import PATIENCE, queued, still_waits, until


def seconds_through_queue(rate, capacity, used, cost):
    """Count the ticks of a leaky bucket until a caller is let in, and then until it's its turn."""
    ticks = 0
    while used + cost > rate + capacity:
        used, ticks = max(0, used - rate), ticks + 1
    return ticks + (used + cost - 1) // rate


@pytest.fixture
def limiter(build, told):
    return build(LeakyBucket(1, per=1, capacity=5), on_decision=told)


def test_is_slept_to_the_microsecond(limiter, clock, at, call, told):
    limiter.hit("a", cost=3)
    told.next()
    caller = call(lambda: (limiter.acquire("a", timeout=60), clock.now()))
    assert told.next().delay == 3.0
    at(2.999999)
    assert still_waits(caller)
    at(3)
    decision, returned = caller.result(PATIENCE)
    assert (decision.allowed, decision.delay, decision.time) == (True, 3.0, 1_700_000_000)
    assert returned == 1_700_000_003
    assert told.rest() == []


def test_who_sleeps_it_is_out_of_the_queue(limiter, at, call, told):
    limiter.hit("a")
    told.next()
    callers = [call(limiter.acquire, "a", timeout=60) for _ in range(3)]
    assert sorted(told.next().delay for _ in range(3)) == [1.0, 2.0, 3.0]
    until(lambda: queued(limiter) == 0)
    for second in (1, 2, 3):
        at(second - 0.000001)
        assert sum(map(still_waits, callers)) == 4 - second
        at(second)
        until(lambda done=second: sum(caller.done() for caller in callers) == done)


@pytest.mark.parametrize("rate", [1, 2, 3])
@pytest.mark.parametrize("capacity", [0, 1, 4, 5])
def test_is_foreseen_exactly_whatever_the_queue(build, clock, at, call, told, rate, capacity):
    most = rate + capacity
    for used, cost in itertools.product(range(1, most + 1), repeat=2):
        at(0)
        bucket = LeakyBucket(rate, per=1, capacity=capacity)
        limiter = build(bucket, name=f"n{used}.{cost}", on_decision=told)
        limiter.hit("a", cost=used)
        needed = seconds_through_queue(rate, capacity, used, cost)

        def attempt(timeout, limiter=limiter, cost=cost):
            return limiter.acquire("a", cost=cost, timeout=timeout).status, clock.now()

        if needed:
            assert attempt(needed - 0.000001) == ("over", 1_700_000_000)
        told.rest()
        caller = call(attempt, needed)
        while not (decision := told.next()):
            clock.advance(decision.retry_after)
        if decision.delay > 0:
            at(needed - 0.000001)
            assert not wait([caller], timeout=0.001).done
            at(needed)
        assert caller.result(PATIENCE) == ("ok", 1_700_000_000 + needed)
