"""A key whose limits have changed is decided alike in memory and on Redis (docs/semantics.md)."""

from __future__ import annotations

import pytest

from overlimit import FixedWindow, Limiter, MemoryStore, Penalty, SlidingLog, SlidingWindow, TokenBucket

FEW = [FixedWindow(2, 60)]
MANY = [FixedWindow(2, 60), SlidingWindow(50, 3600), TokenBucket(9, 60)]


def grown(limiter, _):
    limiter.update(MANY)


def locked_then_grown(limiter, _):
    limiter.lock("a", 100)
    limiter.update(MANY)


def relocked(limiter, _):
    locked_then_grown(limiter, _)
    limiter.lock("a", 500)


def shortened(limiter, _):
    locked_then_grown(limiter, _)
    limiter.lock("a", 1)


def unlocked(limiter, _):
    locked_then_grown(limiter, _)
    limiter.unlock("a")


def refunded(limiter, first):
    limiter.update(MANY)
    limiter.refund(first)


def forgotten(limiter, _):
    locked_then_grown(limiter, _)
    limiter.reset("a")


def punished_twice(limiter, _):
    limiter.hit("a", cost=2)
    limiter.clock.advance(60)
    limiter.hit("a", cost=3)
    limiter.update(MANY)


def shrunk(limiter, _):
    limiter.update(MANY)
    limiter.hit("a")
    limiter.lock("a", 100)
    limiter.update(FEW)
    limiter.unlock("a")


def exchanged(limiter, _):
    limiter.lock("a", 100)
    limiter.update([SlidingLog(50, 3600)])
    limiter.unlock("a")


def refined(limiter, _):
    limiter.lock("a", 100)
    limiter.update([SlidingWindow(50, 60, precision=0.1)])
    limiter.unlock("a")


CHANGES = [
    grown,
    locked_then_grown,
    relocked,
    shortened,
    unlocked,
    refunded,
    forgotten,
    punished_twice,
    shrunk,
    exchanged,
    refined,
]


@pytest.mark.parametrize("extend", [False, True], ids=["fixed", "extending"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_is_decided_alike_ever_after(change, extend, redis_store, clock):
    start, penalty = clock.now(), Penalty([5, 50], extend=extend, forget_after=1000)
    answers = []
    for store in (MemoryStore(), redis_store):
        clock.set(start)
        limiter = Limiter(FEW, name="changed", store=store, clock=clock, penalty=penalty)
        change(limiter, limiter.hit("a"))
        answers.append([each for pause in (0, 1, 0, 5, 0, 60, 100) for each in asked(limiter, pause)])
    in_memory, on_redis = answers
    assert in_memory == on_redis


def asked(limiter, pause):
    limiter.clock.advance(pause)
    for decision in (limiter.peek("a", cost=0), limiter.peek("a"), limiter.hit("a")):
        yield decision.status, decision.remaining, decision.retry_after, decision.reset_after
