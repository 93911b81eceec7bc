"""Who wait are served in the order of their coming."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import FixedWindow, Limiter, SlidingLog, TokenBucket, acquire_all

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


@pytest.mark.only_threads
@pytest.mark.every_store
@pytest.mark.parametrize("several", [False, True], ids=["of one", "of two in opposite orders"])
def test_a_crowd_is_served_completely_and_no_faster_than_the_limit(store, several):
    one, other = (Limiter(SlidingLog(5, 0.1), name=name, store=store) for name in ("one", "other"))
    orders = [[(one, "x"), (other, "y")], [(other, "y"), (one, "x")]]

    def ask(number):
        if several:
            return acquire_all(orders[number % 2], timeout=PATIENCE)
        return one.acquire("a", timeout=PATIENCE)

    with ThreadPoolExecutor(25) as pool:
        decisions = list(pool.map(ask, range(25)))
    times = sorted(decision.time for decision in decisions)
    assert all(decisions)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[5:], strict=False))
    assert queued(one) == queued(other) == 0
