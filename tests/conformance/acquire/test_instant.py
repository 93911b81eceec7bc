"""Waiting lasts until the exact instant, and no microsecond longer."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import FixedWindow, Limiter, SlidingLog

from .waiters import EACH, PATIENCE, queued, still_waits


def test_what_is_allowed_at_once_does_not_wait(build, told):
    decision = build(FixedWindow(3, 60), on_decision=told).acquire("a", "b", cost=2)
    assert (decision.allowed, decision.remaining, decision.cost) == (True, 1, 2)
    assert [bool(each) for each in told.rest()] == [True]


@EACH
def test_who_has_to_wait_is_admitted_at_the_instant_and_no_microsecond_earlier(
    build, clock, at, call, told, limit
):
    limiter = build(limit, on_decision=told)
    start = clock.now()
    limiter.hit("a")
    told.next()
    caller = call(limiter.acquire, "a", timeout=100)
    refusal = told.next()
    assert not refusal
    at(round(refusal.retry_after * 1e6 - 1) / 1e6)
    assert still_waits(caller)
    at(refusal.retry_after)
    decision = caller.result(PATIENCE)
    assert decision
    assert decision.time == pytest.approx(start + refusal.retry_after, abs=1e-9)
    assert [bool(each) for each in told.rest()] == [True], "nobody asks before the time has come"
    assert queued(limiter) == 0


def test_a_clock_that_moves_while_it_is_asked_makes_nobody_sleep_too_long(build, clock, call):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("a")
    for _ in range(20):
        caller = call(limiter.acquire, "a", timeout=100)
        clock.advance(10)
        assert caller.result(PATIENCE)


@pytest.mark.every_store
def test_by_real_time_it_waits_as_long_as_it_must(store):
    limiter = Limiter(SlidingLog(1, 0.2), name="default", store=store)
    begun = time.monotonic()
    decisions = [limiter.acquire("a", timeout=PATIENCE) for _ in range(4)]
    assert 0.6 <= time.monotonic() - begun < 5
    assert all(later.time - earlier.time >= 0.2 for earlier, later in itertools.pairwise(decisions))


def test_others_go_on_meanwhile(store):
    limiter, counted, over = Limiter(FixedWindow(1, 0.5), name="default", store=store), [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1

    with ThreadPoolExecutor(1) as pool:
        limiter.hit("a")
        pool.submit(count)
        assert limiter.acquire("a", timeout=PATIENCE)
        over.set()
    assert counted[0] > 10_000
