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


def test_who_waits_for_one_identifier_holds_up_nobody_at_another(build, at, enqueue):
    limiter = build(FixedWindow(3, 60))
    limiter.hit("ada", cost=3)
    ada = enqueue(limiter, "host", "ada", timeout=None)
    assert limiter.acquire("host", "bob", timeout=0)
    assert limiter.acquire("host", timeout=0)
    assert still_waits(ada)
    at(60)
    assert ada.result(PATIENCE)


def test_who_waits_for_an_identifier_is_served_in_order_whatever_else_it_needs(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("host")
    callers = [enqueue(limiter, *ids, timeout=None) for ids in (("host", "ada"), ("bob", b"host"), ("host",))]
    for place, caller in enumerate(callers):
        assert all(map(still_waits, callers[place:]))
        at(10 * (place + 1))
        assert caller.result(PATIENCE).time == 1_700_000_010 + 10 * place


@pytest.mark.only_threads
def test_who_waits_for_one_limit_holds_up_nobody_that_is_not_under_it(build, at, enqueue):
    limiter = build([FixedWindow(9, 1), FixedWindow(1, 3600)])
    limiter.hit("a")
    caller = enqueue(limiter, "a", timeout=None)
    assert limiter.with_limits(FixedWindow(9, 1)).acquire("a", timeout=0)
    assert not limiter.with_limits(FixedWindow(1, 3600)).acquire("a", timeout=0)
    assert still_waits(caller)
    at(3600)
    assert caller.result(PATIENCE)


def test_a_refusal_names_the_pair_for_which_others_come_first(build, enqueue):
    limiter = build([FixedWindow(9, 1), FixedWindow(2, 10)])
    limiter.hit("host")
    enqueue(limiter, "ada", "host", cost=2, timeout=None)
    assert limiter.peek("bob", "host")
    refusal = limiter.acquire("bob", "host", timeout=9.999999)
    assert (refusal.status, refusal.retry_after, refusal.remaining) == ("over", 10.0, 1)
    assert (refusal.identifier, refusal.limit) == ("host", limiter.limits[1])
    assert [(row.allowed, row.retry_after, row.remaining) for row in refusal.details] == [
        (True, 0, 9),
        (True, 0, 2),
        (True, 0, 8),
        (False, 10.0, 1),
    ]


def test_a_pair_that_was_waited_for_is_kept_during_a_shorter_wait_for_another(build, at, enqueue):
    limiter = build(FixedWindow(1, 10))
    limiter.hit("a")
    both = enqueue(limiter, "a", "b", timeout=None)
    at(8)
    limiter.hit("b")
    at(10)
    behind = enqueue(limiter, "a", timeout=None)
    assert still_waits(both), "until 18, for b"
    assert still_waits(behind), "since the other has waited for a for longer"
    at(18)
    assert both.result(PATIENCE)
    at(28)
    assert behind.result(PATIENCE)


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


@pytest.mark.every_store
def test_a_crowd_is_served_completely_and_no_faster_than_the_limit(store):
    limiter = Limiter(SlidingLog(5, 0.1), name="default", store=store)
    with ThreadPoolExecutor(25) as pool:
        decisions = list(pool.map(lambda _: limiter.acquire("a", timeout=PATIENCE), range(25)))
    times = sorted(decision.time for decision in decisions)
    assert all(decisions)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[5:], strict=False))
    assert queued(limiter) == 0
