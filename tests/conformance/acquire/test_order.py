"""Who wait are served in the order of their coming."""

from __future__ import annotations

import math
import queue
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from overlimit import FixedWindow, Limiter, SlidingLog, TokenBucket

from .waiters import PATIENCE, queued, still_waits, until


def done(callers):
    return sum(caller.done() for caller in callers)


def drained(decisions):
    return [decisions.get_nowait() for _ in range(decisions.qsize())]


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


def test_hits_overtake_and_other_limiters_of_the_name_do_not(build, at, enqueue):
    limiter, other = build(TokenBucket(1, per=1, burst=5)), build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    caller = enqueue(limiter, "a", cost=5, timeout=60)
    at(2)
    assert limiter.hit("a")
    assert not other.acquire("a", timeout=0)
    at(5.999999)
    assert still_waits(caller)
    at(6)
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


@pytest.mark.only_threads  # KeyboardInterrupt ends an event loop
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


def test_who_cannot_go_before_those_ahead_is_refused_at_once_and_leaves_them_their_tokens(build, at, enqueue):
    limiter = build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    large = enqueue(limiter, "a", cost=5, timeout=60)
    at(2)
    refusal = limiter.acquire("a", timeout=2.999999)
    assert (refusal.status, refusal.retry_after, refusal.delay) == ("over", 3.0, 0.0)
    assert (refusal.remaining, refusal.cost, refusal.identifier) == (2, 1, "a")
    assert [(each.allowed, each.retry_after, each.remaining) for each in refusal.details] == [(False, 3.0, 2)]
    at(4)
    assert not limiter.acquire("a", timeout=0), "nor does one who does not wait at all overtake"
    at(5)
    assert large.result(PATIENCE).time == 1_700_000_005


def test_who_must_go_before_those_ahead_can_is_refused_as_soon_as_that_is_known(build, at, enqueue):
    limiter = build(TokenBucket(1, per=1, burst=5))
    limiter.hit("a", cost=5)
    first, second = enqueue(limiter, "a", timeout=60), enqueue(limiter, "a", cost=5, timeout=60)
    small = [enqueue(limiter, "a", timeout=timeout) for timeout in (5.999999, 6)]
    at(1)
    assert first.result(PATIENCE)
    refusal = small[0].result(PATIENCE)
    assert (refusal.status, refusal.retry_after, refusal.time) == ("over", 5.0, 1_700_000_001)
    assert still_waits(small[1])
    at(6)
    assert second.result(PATIENCE)
    assert not small[1].result(PATIENCE)


def test_what_is_known_of_one_line_is_known_in_all_behind_it(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("x")
    enqueue(limiter, "x", "y", timeout=60)
    between = enqueue(limiter, "y", "z", timeout=60)
    assert limiter.peek("z")
    assert limiter.acquire("z", timeout=9.999999).retry_after == 10.0
    at(10)
    assert not limiter.acquire("z", timeout=9.999999)
    at(20)
    assert between.result(PATIENCE)


def test_who_leaves_lets_those_behind_it_in_whatever_line_they_stand_in(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("x")
    limiter.lock("x", 15)
    first, behind = enqueue(limiter, "x", "y", timeout=16), enqueue(limiter, "y", "z", timeout=60)
    last = enqueue(limiter, "z", timeout=60)
    limiter.lock("x", 30)
    assert first.result(PATIENCE).status == "locked"
    assert behind.result(PATIENCE).time == 1_700_000_000
    assert still_waits(last)
    at(10)
    assert last.result(PATIENCE)


PEOPLE = ["anna", "bert", "cleo", "dora"]


@pytest.mark.parametrize("seed", range(5))
def test_nobody_overtakes_whoever_waits_for_what_and_however_long(build, clock, call, seed):
    random, served = Random(seed), queue.SimpleQueue()
    limiter = build(TokenBucket(2, per=1, burst=4), on_decision=lambda each: each and served.put(each))
    for person in PEOPLE:
        limiter.lock(person, 3)
    asked = [random.sample(PEOPLE, random.randint(1, 3)) for _ in range(40)]
    callers, patient = [], []
    for number, people in enumerate(asked):
        options = {"cost": random.randint(1, 4), "timeout": random.choice([5, 20, None])}
        callers.append(call(limiter.acquire, *people, f"caller {number}", **options))
        until(lambda: queued(limiter) + done(callers) == len(callers))
        if options["timeout"] is None:
            patient.append(callers[-1])

    def all_are_done():
        clock.advance(0.1)
        return done(callers) == len(callers)

    until(all_are_done)
    order = [int(decision.details[-1].identifier.split()[1]) for decision in drained(served)]
    # The clock runs ahead of threads that a busy machine holds up, so how many give up in time is not known.
    assert len(order) == sum(bool(caller.result(PATIENCE)) for caller in callers) >= len(patient) >= 10
    assert all(caller.result(PATIENCE) for caller in patient)
    for place, number in enumerate(order):
        overtaken = [n for n in order[place:] if n < number and not set(asked[n]).isdisjoint(asked[number])]
        assert not overtaken


@pytest.mark.every_store
def test_a_crowd_is_served_completely_and_no_faster_than_the_limit(store):
    limiter = Limiter(SlidingLog(5, 0.1), name="default", store=store)
    with ThreadPoolExecutor(25) as pool:
        decisions = list(pool.map(lambda _: limiter.acquire("a", timeout=PATIENCE), range(25)))
    times = sorted(decision.time for decision in decisions)
    assert all(decisions)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[5:], strict=False))
    assert queued(limiter) == 0
