"""Waiting is no violation."""

from __future__ import annotations

from overlimit import FixedWindow, Penalty

from .waiters import PATIENCE, still_waits


def test_waiting_neither_sets_nor_extends_a_lock(build, at, enqueue):
    limiter = build(FixedWindow(1, 10), penalty=Penalty([600], extend=True))
    limiter.hit("a")
    assert limiter.acquire("a", timeout=9.999999).status == "over"
    assert limiter.peek("a", cost=0).status == "ok"
    callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (30, 30)]
    at(10)
    assert callers[0].result(PATIENCE)
    assert still_waits(callers[1]), "a lock of 600 s that no hit has set is nothing to go by"
    at(20)
    assert callers[1].result(PATIENCE)
    assert limiter.hit("a").retry_after == 600.0
    at(120)
    caller = enqueue(limiter, "a", timeout=600)
    assert limiter.peek("a", cost=0).retry_after == 500.0
    at(620)
    assert caller.result(PATIENCE)
