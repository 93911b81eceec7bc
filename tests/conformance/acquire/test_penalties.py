"""Waiting is no violation."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, Penalty

from .waiters import PATIENCE, still_waits


@pytest.fixture
def limiter(build):
    return build(FixedWindow(1, 10), penalty=Penalty([600], extend=True))


def test_waiting_sets_no_lock(limiter, at, enqueue):
    limiter.hit("a")
    assert limiter.acquire("a", timeout=9.999999).status == "over"
    assert limiter.peek("a", cost=0).status == "ok"
    caller = enqueue(limiter, "a", timeout=10)
    at(10)
    assert caller.result(PATIENCE)
    assert limiter.peek("a", cost=0).status == "ok"


def test_nor_does_waiting_behind_another(limiter, at, enqueue):
    limiter.hit("a")
    callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (30, 30)]
    at(10)
    assert callers[0].result(PATIENCE)
    assert still_waits(callers[1]), "a lock of 600 s that no hit has set is nothing to go by"
    at(20)
    assert callers[1].result(PATIENCE)


def test_waiting_extends_no_lock(limiter, at, enqueue):
    limiter.hit("a")
    assert limiter.hit("a").retry_after == 600.0
    at(100)
    callers = [enqueue(limiter, "a", timeout=600) for _ in range(2)]
    assert limiter.peek("a", cost=0).retry_after == 500.0
    at(600)
    assert callers[0].result(PATIENCE)
    at(610)
    assert callers[1].result(PATIENCE)
