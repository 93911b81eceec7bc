"""Whoever wants to know of decisions is told of each hit that waiting takes."""

from __future__ import annotations

from overlimit import FixedWindow

from .waiters import PATIENCE


def test_is_told_of_each_hit_and_of_nothing_else(build, at, enqueue, told):
    limiter = build(FixedWindow(1, 10), on_decision=told)
    limiter.hit("a")
    callers = [enqueue(limiter, "a", timeout=60) for _ in range(2)]
    at(10)
    first = callers[0].result(PATIENCE)
    at(20)
    second = callers[1].result(PATIENCE)
    decisions = told.rest()
    assert [decision for decision in decisions if decision][1:] == [first, second]
    assert 4 <= len(decisions) <= 5  # the hit, a refusal and an admission, perhaps a refusal, an admission


def test_what_it_raises_is_logged_and_waiting_goes_on(build, at, enqueue, caplog):
    def fail(decision):
        raise RuntimeError("no ear for decisions")

    limiter = build(FixedWindow(1, 10), on_decision=fail)
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=60)
    at(10)
    assert caller.result(PATIENCE)
    assert len(caplog.records) == 3
