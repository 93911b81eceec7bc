"""Waiting is never in vain: who cannot be served in time is refused at once."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from overlimit import FixedWindow, Limiter, SlidingWindow, acquire_all, acquire_first
from overlimit.recipes import Concurrency

from .waiters import EACH, PATIENCE, queued, still_waits, until


@pytest.mark.every_store
@EACH
def test_a_timeout_one_microsecond_too_short_is_refused_at_once_and_charges_nothing(build, told, limit):
    limiter = build(limit, on_decision=told)
    limiter.hit("a")
    before = repr(limiter.peek("a", "b", cost=0).details)
    retry_us = round(limiter.peek("a").retry_after * 1e6)
    refusal = limiter.acquire("a", "b", timeout=(retry_us - 1) / 1e6)
    assert (refusal.status, refusal.retry_after) == ("over", retry_us / 1e6)
    assert repr(limiter.peek("a", "b", cost=0).details) == before
    assert len(told.rest()) == 2


@EACH
def test_a_timeout_that_is_just_enough_is_enough(build, at, enqueue, limit):
    limiter = build(limit)
    limiter.hit("a")
    retry = limiter.peek("a").retry_after
    caller = enqueue(limiter, "a", timeout=retry)
    at(retry)
    assert caller.result(PATIENCE)


def test_0_asks_once(build):
    limiter = build(FixedWindow(1, 60))
    assert limiter.acquire("a", timeout=0)
    assert limiter.acquire("a", timeout=0).status == "over"
    assert limiter.acquire("a", timeout=0.0, cost=0)


@pytest.mark.every_store
def test_it_is_5_seconds_by_default(build, at, enqueue):
    limiter = build(FixedWindow(1, 5))
    limiter.hit("a")
    caller = enqueue(limiter, "a")
    at(5)
    assert caller.result(PATIENCE)
    longer = build(FixedWindow(1, 5.000001), name="longer")
    longer.hit("a")
    assert not longer.acquire("a")


@pytest.mark.parametrize("timeout", [0, 5.0, math.inf, 10**400, None])
def test_what_can_never_pass_is_refused_at_once(build, timeout):
    limiter = build([FixedWindow(3, 60), SlidingWindow(5, 60)])
    refusal = limiter.acquire("a", cost=4, timeout=timeout)
    assert (refusal.status, refusal.retry_after) == ("never", math.inf)


def test_none_and_infinity_wait_as_long_as_it_takes(build, clock, enqueue):
    limiter = build(FixedWindow(1, 86_400 * 365))
    limiter.hit("a")
    callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (None, math.inf, 10**400)]
    for caller in callers:
        clock.advance(86_400 * 365)
        assert caller.result(PATIENCE)


def test_infinity_outlasts_a_clock_that_goes_back_by_decades(build, clock, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=math.inf)
    clock.set(0)
    assert still_waits(caller)
    limiter.reset("a")
    assert caller.result(PATIENCE)


@pytest.mark.only_threads
@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (ValueError, [-1, -1e-9, -math.inf, math.nan, -(10**400)]),
        (TypeError, [True, False, "5", [5]]),
    ],
)
def test_what_is_no_length_of_time_is_an_error_and_charges_nothing(build, told, error, wrong):
    limiter = build(FixedWindow(1, 60), on_decision=told)
    at_once = Concurrency(1)
    for wait in (
        partial(limiter.acquire, "a"),
        partial(limiter.throttle, "a"),
        partial(acquire_all, [(limiter, "a")]),
        partial(acquire_first, [(limiter, "a")]),
        partial(at_once.acquire, "a"),
        partial(at_once.slot, "a"),
    ):
        for timeout in wrong:
            with pytest.raises(error, match="timeout"):
                wait(timeout=timeout)
        with pytest.raises(TypeError, match="timeout="):
            wait(max_wait=5)
    assert told.rest() == []
    assert limiter.peek("a", cost=0).remaining == 1
    assert at_once.in_use("a") == 0


def test_a_clock_that_goes_back_shortens_nothing(build, at, call, told):
    limiter = build(FixedWindow(1, 10), on_decision=told)
    at(100)
    limiter.hit("a")
    caller = call(limiter.acquire, "a", timeout=50)
    told.next()
    told.next()
    at(50)
    assert still_waits(caller)
    at(109.999999)
    assert still_waits(caller)
    at(110)
    assert caller.result(PATIENCE)


def test_a_caller_behind_one_that_never_comes_back_is_refused_when_its_time_is_up(store):
    is_stuck, released = threading.Event(), threading.Event()

    def get_stuck(decision):
        if decision:
            is_stuck.set()
            released.wait(PATIENCE)

    limiter = Limiter("5/minute", name="default", store=store, on_decision=get_stuck)
    limiter.lock("a", 3600)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(limiter.acquire, "a", timeout=None)
        until(lambda: queued(limiter) == 1)
        limiter.unlock("a")
        assert is_stuck.wait(PATIENCE)
        refusal = limiter.acquire("a", timeout=0.01)
        released.set()
        assert stuck.result(PATIENCE)
    assert (refusal.status, refusal.retry_after) == ("over", 0.000001)
    assert limiter.peek("a", cost=0).remaining == 4
