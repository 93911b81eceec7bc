"""What waiting costs a store: a few calls for each caller, however many wait."""

from __future__ import annotations

import itertools

import pytest

from overlimit import FixedWindow, Limiter, SlidingLog, acquire_all
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms

from .waiters import PATIENCE, queued, until

CROWD = 30
LIMITS = {name: kind.from_terms(Terms(3, 1)) for name, kind in ALGORITHMS.items()}


def calls(limiter):
    return limiter.stats()["calls"]


def crowd_served(call, limiter):
    """Let a CROWD wait for one who is locked, lift the lock, and return when each was let in, in order."""
    limiter.lock("a", PATIENCE)
    callers = []
    for number in range(CROWD):
        callers.append(call(limiter.acquire, "a", timeout=3 * PATIENCE))
        until(lambda waiting=number + 1: queued(limiter) == waiting)
    limiter.reset("a")
    decisions = [caller.result(PATIENCE) for caller in callers]
    assert all(decisions)
    return [decision.time for decision in decisions]


@pytest.mark.every_store
def test_a_grant_costs_at_most_three_calls(store, call):
    limiter = Limiter(SlidingLog(1, 0.005), name="default", store=store)
    times = crowd_served(call, limiter)
    assert times == sorted(times)
    assert all(later - earlier >= 0.005 - 1e-6 for earlier, later in itertools.pairwise(times))
    assert 2 * CROWD <= calls(limiter) <= 3 * CROWD + 2  # the lock and the reset


def test_a_refund_wakes_one(build, call):
    limiter = build(FixedWindow(1, 3600))
    charged = limiter.hit("a")
    callers = [call(limiter.acquire, "a", timeout=None) for _ in range(CROWD)]
    until(lambda: queued(limiter) == CROWD)
    until(lambda: calls(limiter) == 2)
    limiter.refund(charged)
    until(lambda: queued(limiter) == CROWD - 1)
    until(lambda: calls(limiter) == 2 + 3)  # the refund, the admission, and one that has to wait on
    until(lambda: sum(caller.done() for caller in callers) == 1)
    limiter.update(FixedWindow(CROWD, 3600))
    assert all(caller.result(PATIENCE) for caller in callers)
    assert calls(limiter) <= 2 * CROWD + 4


def test_nobody_is_asked_for_what_happens_to_others(build, call):
    limiter = build(FixedWindow(1, 3600))
    people = [f"user:{number}" for number in range(50)]
    charged = {person: limiter.hit(person) for person in people}
    callers = {person: call(limiter.acquire, person, timeout=None) for person in people}
    until(lambda: calls(limiter) == 100)
    limiter.refund(charged["user:7"])
    limiter.reset("user:8")
    assert callers["user:7"].result(PATIENCE)
    assert callers["user:8"].result(PATIENCE)
    assert calls(limiter) == 104
    assert sum(caller.done() for caller in callers.values()) == 2
    limiter.reset_all()
    assert all(caller.result(PATIENCE) for caller in callers.values())
    assert calls(limiter) <= 104 + 1 + 48


@pytest.mark.parametrize("kind", LIMITS)
def test_who_comes_behind_others_and_has_time_asks_nothing_unless_it_can_never_pass(store, call, kind):
    limiter = Limiter(LIMITS[kind], name="patient", store=store)
    quota = limiter.limits[0].quota
    limiter.lock("a", 3600)
    first = call(limiter.acquire, "a", timeout=None)
    until(lambda: queued(limiter) == 1)
    until(lambda: calls(limiter) == 2)
    others = [call(limiter.acquire, "a", cost=cost, timeout=None) for cost in (1, quota)]
    until(lambda: queued(limiter) == 3)
    assert limiter.acquire("a", cost=quota + 1, timeout=None).status == "never"
    assert calls(limiter) == 3
    limiter.unlock("a")
    assert first.result(PATIENCE)
    limiter.reset("a")
    assert others[0].result(PATIENCE)
    limiter.reset("a")
    assert others[1].result(PATIENCE)


@pytest.mark.only_threads
def test_each_caller_of_several_costs_a_few_calls_however_many_wait(build, call, clock, long):
    limiter = build(FixedWindow(1, 10), name="few")
    roomy = build(FixedWindow(100, 3600), name="roomy")
    callers = []
    for number in range(20):
        callers.append(call(acquire_all, [(roomy, "y"), (limiter, "x")], timeout=None))
        until(lambda waiting=number + 1: queued(limiter) + sum(each.done() for each in callers) == waiting)
    until(lambda: sum(each.done() for each in callers) == 1)
    for caller in callers[1:]:
        clock.advance(10)
        assert caller.result(PATIENCE)
    assert 20 <= roomy.stats()["calls"] <= 3 * 20
