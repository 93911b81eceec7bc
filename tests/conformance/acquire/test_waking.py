"""What changes in this process is noticed by those who wait."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, Limiter, Penalty

from .waiters import PATIENCE, still_waits


@pytest.fixture
def other(build):
    return build(FixedWindow(1, 3600), penalty=Penalty(1))


@pytest.fixture
def caller(build, other, enqueue, told):
    other.hit("a")
    caller = enqueue(build(FixedWindow(1, 3600), on_decision=told), "a", timeout=7200)
    assert not told.next()
    return caller


@pytest.mark.every_store
def test_a_refund_lets_in_at_once(build, enqueue):
    limiter = build(FixedWindow(1, 3600))
    charged = limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=7200)
    build(FixedWindow(1, 3600)).refund(charged)
    assert caller.result(PATIENCE).time == 1_700_000_000


def test_a_reset_lets_in_at_once(other, caller):
    other.reset("a")
    assert caller.result(PATIENCE).time == 1_700_000_000


def test_a_reset_of_all_lets_in_at_once(other, caller):
    other.reset_all()
    assert caller.result(PATIENCE).time == 1_700_000_000


def test_a_lock_that_is_lifted_lets_in_at_once(build, enqueue):
    limiter = build(FixedWindow(1, 3600))
    limiter.lock("a", 3000)
    caller = enqueue(limiter, "a", timeout=7200)
    assert still_waits(caller)
    limiter.lock("a", 1e-6)
    limiter.clock.advance(1e-6)
    assert caller.result(PATIENCE).time == 1_700_000_000.000001


def test_a_raised_limit_lets_in_at_once(build, enqueue):
    limiter = build(FixedWindow(1, 3600))
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=7200)
    limiter.update(FixedWindow(2, 3600))
    assert caller.result(PATIENCE).time == 1_700_000_000


def test_what_changes_nothing_lets_nobody_in(other, caller, clock):
    other.reset("b")
    other.lock("b", 5)
    clock.advance(3599.999999)
    assert still_waits(caller)
    clock.advance(0.000001)
    assert caller.result(PATIENCE)


def test_a_lock_by_hand_is_waited_for(build, at, enqueue):
    limiter = build(FixedWindow(1, 3600))
    limiter.lock("a", 20)
    assert limiter.acquire("a", timeout=19.999999).status == "locked"
    caller = enqueue(limiter, "a", timeout=20)
    at(19.999999)
    assert still_waits(caller)
    at(20)
    assert caller.result(PATIENCE)


@pytest.mark.every_store
@pytest.mark.parametrize("change", ["refund", "reset", "reset_all", "update"])
def test_what_happens_while_a_caller_is_told_to_wait_is_not_lost(store, call, change):
    def let_in(decision):
        if not decision:
            changes[change]()

    limiter = Limiter(FixedWindow(1, 3600), name="default", store=store, on_decision=let_in)
    charged = limiter.hit("a")
    changes = {
        "refund": lambda: limiter.refund(charged),
        "reset": lambda: limiter.reset("a"),
        "reset_all": limiter.reset_all,
        "update": lambda: limiter.update(FixedWindow(2, 3600)),
    }
    assert call(limiter.acquire, "a", timeout=None).result(PATIENCE)
