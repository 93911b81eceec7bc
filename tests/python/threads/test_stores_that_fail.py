"""A store that fails while threads call: their local fallback is one, and each failure is counted."""

from __future__ import annotations

import logging

from overlimit import FixedWindow, Limiter, RedisStore
from overlimit.stores.memory import local_fallback_of

from .together import THREADS, all_together

NOWHERE = "unix:///nowhere/threads.sock"  # of nobody else: an outage is logged once in a while
CALLS = 50


def test_the_fallback_admits_exactly_the_limit(caplog):
    store = RedisStore(NOWHERE)
    limiters = [Limiter(FixedWindow(60, 86_400), name="a", store=store, on_error="local") for _ in range(2)]

    def hit(thread: int) -> int:
        return sum(bool(limiters[thread % 2].hit("a")) for _ in range(CALLS))

    with caplog.at_level(logging.WARNING):
        assert sum(all_together(hit)) == 60
    counted = [limiter.stats() for limiter in limiters]
    assert [each["calls"] for each in counted] == [each["local"] for each in counted] == [2 * CALLS] * 2
    assert sum(counted[0]["errors"].values()) == 2 * CALLS
    assert len([record for record in caplog.records if "fails" in record.message]) == 1


def test_a_store_has_one_fallback():
    for _ in range(10):
        store = RedisStore(NOWHERE)
        first, *others = all_together(lambda _, store=store: local_fallback_of(store))
        assert others == [first] * (THREADS - 1)


def test_a_decision_of_the_fallback_is_refunded_once():
    limiter = Limiter(FixedWindow(10, 86_400), name="a", store=RedisStore(NOWHERE), on_error="local")
    decision = limiter.hit("a", cost=3)
    assert limiter.hit("a", cost=4)
    all_together(lambda _: limiter.refund(decision))
    assert limiter.peek("a", cost=0).remaining == 6
