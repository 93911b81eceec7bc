"""Who wait are served in the order of their coming."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import FixedWindow, Limiter, SlidingLog, TokenBucket

from .waiters import PATIENCE, queued, still_waits


def test_the_first_come_is_the_first_served(build, clock, enqueue):
    limiter, served = build(TokenBucket(1, per=1)), []
    limiter.hit("a")
    callers = [enqueue(limiter, "a", timeout=60) for _ in range(8)]
    for caller in callers:
        clock.advance(1)
        served.append(caller.result(PATIENCE).time)
    assert served == [1_700_000_001 + i for i in range(8)]
    assert queued(limiter) == 0


def test_who_asks_for_less_does_not_overtake_who_asked_before(build, at, enqueue):
    limiter = build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    large, small = enqueue(limiter, "a", cost=5, timeout=60), enqueue(limiter, "a", timeout=60)
    at(4.999999)
    assert still_waits(large)
    assert still_waits(small)
    at(5)
    assert large.result(PATIENCE)
    assert still_waits(small)
    at(6)
    assert small.result(PATIENCE)


def test_others_overtake(build, enqueue):
    limiter = build(FixedWindow(1, 60))
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=60)
    assert limiter.acquire("b", timeout=0)
    assert not caller.done()


def test_hits_and_other_limiters_overtake(build, at, enqueue):
    limiter, other = build(TokenBucket(1, per=1, burst=5)), build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    caller = enqueue(limiter, "a", cost=5, timeout=60)
    at(2)
    assert limiter.hit("a")
    assert other.acquire("a", timeout=0)
    at(6.999999)
    assert still_waits(caller)
    at(7)
    assert caller.result(PATIENCE)


def test_one_identifier_in_common_is_enough(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("x")
    callers = [enqueue(limiter, *ids, timeout=60) for ids in (("x",), ("x", b"y"), ("y", "z"))]
    at(9)
    assert all(map(still_waits, callers)), "z is behind y, which is behind x"
    at(10)
    assert callers[0].result(PATIENCE)
    assert still_waits(callers[2])
    at(20)
    assert callers[1].result(PATIENCE)
    assert still_waits(callers[2])
    at(30)
    assert callers[2].result(PATIENCE)


def test_a_place_behind_another_is_no_reason_to_wait_in_vain(build, enqueue):
    limiter = build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    enqueue(limiter, "a", timeout=60)
    assert limiter.acquire("a", cost=4, timeout=3.999999).status == "over"
    assert limiter.acquire("a", cost=6, timeout=math.inf).status == "never"


def test_who_learns_that_it_waits_in_vain_leaves_at_once(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("a")
    callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (60, 60, 15)]
    at(10)
    assert callers[0].result(PATIENCE)
    assert callers[2].result(PATIENCE).status == "over"
    assert still_waits(callers[1])


def test_who_gives_up_lets_the_next_one_in(build, at, enqueue):
    limiter = build(TokenBucket(1, per=1, burst=2))
    limiter.hit("a", cost=2)
    first, second = enqueue(limiter, "a", cost=2, timeout=2.5), enqueue(limiter, "a", timeout=60)
    at(1)
    assert limiter.hit("a")
    at(2)
    assert first.result(PATIENCE).status == "over"
    assert second.result(PATIENCE).time == 1_700_000_002


def test_an_error_of_one_lets_the_next_one_in(build, at, enqueue):
    fails = iter([False, False, True, False, False])

    def tell(decision):
        if next(fails):
            raise KeyboardInterrupt

    limiter = build(FixedWindow(1, 10), on_decision=tell)
    limiter.hit("a")
    first, second = enqueue(limiter, "a", timeout=60), enqueue(limiter, "a", timeout=60)
    at(10)
    with pytest.raises(KeyboardInterrupt):
        first.result(PATIENCE)
    at(20)
    assert second.result(PATIENCE)
    assert queued(limiter) == 0


def test_a_crowd_is_served_completely_and_no_faster_than_the_limit(store):
    limiter = Limiter(SlidingLog(5, 0.1), store=store)
    with ThreadPoolExecutor(25) as pool:
        decisions = list(pool.map(lambda _: limiter.acquire("a", timeout=PATIENCE), range(25)))
    times = sorted(decision.time for decision in decisions)
    assert all(decisions)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[5:], strict=False))
    assert queued(limiter) == 0
