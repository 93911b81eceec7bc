"""What changes in this process is noticed by those who wait."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, Limiter

from .waiters import PATIENCE, still_waits


@pytest.mark.every_store
@pytest.mark.parametrize("change", ["refund", "reset", "reset_all", "unlock", "update"])
def test_what_lets_somebody_in_does_so_at_once_whoever_does_it(build, enqueue, change):
    limiter, other = build(FixedWindow(1, 3600)), build(FixedWindow(1, 3600))
    charged = limiter.hit("a", cost=0 if change == "unlock" else 1)
    if change == "unlock":
        other.lock("a", 3000)
    caller = enqueue(limiter, "a", timeout=7200)
    arguments = {"refund": [charged], "reset_all": [], "update": [FixedWindow(2, 3600)]}
    changing = limiter if change == "update" else other
    getattr(changing, change)(*arguments.get(change, ["a"]))
    assert caller.result(PATIENCE).time == 1_700_000_000


def test_what_changes_nothing_lets_nobody_in(build, clock, enqueue):
    limiter, other = build(FixedWindow(1, 3600)), build(FixedWindow(1, 3600))
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=7200)
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
