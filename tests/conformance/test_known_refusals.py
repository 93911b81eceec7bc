"""Refusals by what a process was told (``max_stale``, ``docs/semantics.md``), on real servers."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from overlimit import (
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    StoreError,
    TokenBucket,
    hit_all,
    peek_all,
)
from overlimit.aio import AsyncLimiter
from programs import output_of
from servers.patience import PATIENCE
from servers.redis_server import RedisServer

from .all_algorithms import CALENDAR, of_each_algorithm
from .leased import elsewhere

ALL = of_each_algorithm(3, 3600) | CALENDAR
HOUR = SlidingLog(3, 3600)


@pytest.fixture
def believing(redis_server: RedisServer, prefix: str) -> RedisStore:
    return RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, max_stale=60)


def exhausted(store: RedisStore, limits: Any = HOUR, *identifiers: str, **options: Any) -> Limiter:
    """Return a limiter that has refused once."""
    limiter = Limiter(limits, name="api", store=store, **options)
    for _ in range(100):
        if not limiter.hit(*identifiers or "a"):
            return limiter
    raise AssertionError("nothing is refused")


def sources(limiter: Any, calls: int = 3, *identifiers: str) -> set[str]:
    return {limiter.hit(*identifiers or "a").source for _ in range(calls)}


@pytest.mark.parametrize("kind", ALL)
def test_what_was_refused_is_refused_here(believing, strict, kind):
    limiter = exhausted(believing, ALL[kind])
    asked = limiter.stats()["asked"]
    here = limiter.hit("a")
    there = Limiter(ALL[kind], name="api", store=strict).peek("a")
    assert (here.allowed, here.source, there.source) == (False, "refusal", "store")
    assert (here.status, here.remaining, here.limit) == (there.status, there.remaining, there.limit)
    assert here.time <= there.time
    # Both name the same instant, the one from an earlier one.
    assert here.time + here.retry_after == pytest.approx(there.time + there.retry_after, abs=2e-6)
    assert here.time + here.reset_after == pytest.approx(there.time + there.reset_after, abs=2e-6)
    assert sources(limiter, 100) == {"refusal"}
    assert (limiter.stats()["refusals"], limiter.stats()["asked"]) == (101, asked)


def test_peeks_costs_and_several_policies_are_answered_too(believing):
    limiter = exhausted(believing)
    pairs = [(limiter, "a"), (Limiter("9/hour", name="other", store=believing), "b")]
    assert limiter.peek("a").source == "refusal"
    assert limiter.hit("a", cost=2).source == "refusal"
    assert (limiter.hit("a", cost=4).status, limiter.hit("a", cost=4).source) == ("never", "refusal")
    assert hit_all(pairs).source == "store"  # nothing is known of b
    assert (hit_all(pairs).source, peek_all(pairs).source) == ("refusal", "refusal")


def test_what_the_server_admits_is_asked_for(believing):
    limiter = Limiter(TokenBucket(10, 3600), name="api", store=believing)
    assert limiter.hit("a", cost=8)
    assert limiter.hit("a", cost=5).source == "store"
    assert limiter.hit("a", cost=5).source == "refusal"
    assert limiter.hit("a", cost=2).source == "store"  # of which nothing is left
    assert limiter.hit("a", cost=1).source == "refusal"  # as the charge has told


def test_after_a_charge_what_is_known_is_what_the_server_has(believing, strict):
    limits = [SlidingWindow(10, 3600), SlidingLog(10, 600), TokenBucket(10, 3600), "10/day"]
    limiter = Limiter(limits, name="api", store=believing)
    assert limiter.hit("a", cost=7)
    assert not limiter.hit("a", cost=5)
    assert limiter.hit("a", cost=2)
    here = limiter.hit("a", cost=3)
    there = Limiter(limits, name="api", store=strict).peek("a", cost=3)
    assert here.source == "refusal"
    assert [row.remaining for row in here.details] == [row.remaining for row in there.details]
    assert here.time + here.retry_after == pytest.approx(there.time + there.retry_after, abs=2e-6)


@pytest.mark.parametrize("change", ["refund", "settle", "reset", "reset_all", "unlock"])
def test_what_this_process_changes_is_known_at_once(believing, strict, change):
    for store in (believing, strict):
        limiter = Limiter(HOUR, name=f"api-{store is strict}", store=believing)
        changing = Limiter(HOUR, name=limiter.name, store=store)
        first = changing.hit("a")
        if change == "unlock":
            changing.lock("a", 3600)
        while limiter.hit("a"):
            pass
        assert limiter.hit("a").source == "refusal"
        arguments = {"refund": (first,), "settle": (first, 0), "reset_all": ()}.get(change, ("a",))
        getattr(changing, change)(*arguments)
        assert limiter.hit("a").allowed


def test_a_lock_of_this_process_is_known_at_once(believing):
    limiter = exhausted(believing)
    limiter.lock("a", 7200)
    assert limiter.hit("a").status == "locked"
    assert limiter.hit("a").source == "refusal"


@pytest.mark.parametrize("what", ["limiter.reset('a')", "limiter.lock('a', 9999)"])
def test_what_others_change_is_noticed_within_max_stale(redis_server, prefix, what):
    store = RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, max_stale=1)
    limiter = exhausted(store)
    elsewhere(store, redis_server.unix_url(), what, "SlidingLog(3, 3600)")
    changed = time.monotonic()
    while limiter.hit("a").source == "refusal":
        time.sleep(0.01)
    assert time.monotonic() - changed < 10
    assert limiter.peek("a").status == ("ok" if "reset" in what else "locked")


def test_a_penalty_sets_and_extends_its_locks(believing):
    limiter = exhausted(believing, HOUR, penalty=Penalty([60, 600], extend=True))
    assert sources(limiter) == {"store"}
    limiter = exhausted(believing, HOUR, "b", penalty=Penalty([60, 600]))  # which has set the lock
    assert limiter.hit("b").status == "locked"
    assert sources(limiter, 5, "b") == {"refusal"}
    # With an identifier that is only over its limit, the server may have a lock to set.
    while limiter.hit("c").allowed:
        pass
    limiter.unlock("c")
    assert sources(limiter, 3, "b", "c") == {"store"}


def test_an_injected_clock_is_never_believed(believing):
    clock = ManualClock(start=1_700_000_000)
    limiter = exhausted(believing, HOUR, clock=clock)
    assert sources(limiter) == {"store"}
    exhausted(believing, HOUR, "b")
    assert limiter.hit("b").source == "store"


def test_many_rows_are_refused_here(believing):
    limiter = exhausted(believing)
    exhausted(believing, HOUR, "b")
    asked = limiter.stats()["asked"]
    decided = limiter.hit_many(["a", "b", "new", "a", "new", "b"] * 3)
    assert decided.allowed.tolist() == [False, False, True, False, True, False] + [
        False, False, True, False, False, False,
    ] + [False] * 6  # fmt: skip
    assert limiter.stats()["asked"] - asked <= 6
    assert {each.source for each in decided} == {"store", "refusal"}
    assert [each.source for each in decided][:2] == ["refusal", "refusal"]


def test_tasks_are_refused_here(believing):
    async def ask() -> list[str]:
        limiter = AsyncLimiter(HOUR, name="api", store=believing)
        decisions = [await limiter.hit("a") for _ in range(5)]
        decisions += await asyncio.gather(*(limiter.hit("a") for _ in range(5)))
        return [each.source for each in decisions]

    assert asyncio.run(ask()) == ["store"] * 4 + ["refusal"] * 6


def test_a_child_knows_nothing(redis_server, prefix):
    program = (
        "from overlimit import *; import os, sys\n"
        f"store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE}, max_stale=60)\n"
        "limiter = Limiter('1/hour', name='api', store=store)\n"
        "print([limiter.hit('a').source for _ in range(3)], flush=True)\n"
        "if os.fork() == 0:\n"
        "    print([limiter.hit('a').source for _ in range(2)], flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(limiter.hit('a').source)\n"
    )
    lines = output_of(program, redis_server.unix_url(), prefix).splitlines()
    assert lines == ["['store', 'store', 'refusal']", "['store', 'refusal']", "refusal"]


@pytest.mark.check
def test_a_flood_asks_once_in_three_quarters_of_max_stale(start_redis, prefix):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, max_stale=0.4)
    limiter = exhausted(store)
    server.ask("CONFIG", "RESETSTAT")
    began, asked = time.monotonic(), limiter.stats()["asked"]
    while time.monotonic() - began < 2:
        assert not limiter.hit("a")
    took = time.monotonic() - began
    counted = re.search(rb"cmdstat_evalsha:calls=(\d+)", server.ask("INFO", "commandstats"))
    assert counted is not None
    commands = int(counted.group(1))
    assert commands == limiter.stats()["asked"] - asked
    assert 2 <= commands <= took / 0.3 + 1
    assert limiter.stats()["refusals"] > 100 * commands


def test_a_flood_asks_once_more_for_each_unit_that_becomes_free(redis_server, prefix):
    store = RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix, max_stale=60)
    limiter = exhausted(store, TokenBucket(20, per=1))
    began, before = time.monotonic(), limiter.stats()
    admitted = 0
    while (took := time.monotonic() - began) < 1:
        admitted += limiter.hit("a").allowed
    asked = limiter.stats()["asked"] - before["asked"]
    # Of what a busy machine has left no time to take, something is left.
    assert 20 * took - 3 <= admitted + limiter.peek("a", cost=0).remaining
    assert admitted <= 20 * took + 1
    # It is asked again and again as long as the server's clock may show that a unit is free.
    assert admitted <= asked


@pytest.mark.parametrize(
    "limit", [TokenBucket(2, 0.2), SlidingWindow(2, 0.3), LeakyBucket(1, 0.1, capacity=2), SlidingLog(1, 0.2)]
)
def test_who_comes_back_as_told_is_admitted(believing, limit):
    limiter = exhausted(believing, limit)
    for _ in range(5):
        decision = limiter.hit("a")
        told = time.monotonic() + decision.retry_after
        while time.monotonic() < told:
            time.sleep(max(0.0, told - time.monotonic()))
        assert limiter.hit("a").allowed, decision
        while limiter.hit("a"):
            pass


@pytest.mark.check
def test_a_server_that_does_not_answer_is_believed_as_long(start_redis, prefix):
    server = start_redis()
    store = RedisStore(server.unix_url(), timeout=0.2, prefix=prefix, max_stale=2)
    limiter = exhausted(store)
    server.pause()
    try:
        began = time.monotonic()
        failed_at = []
        while time.monotonic() - began < 2.5:
            try:
                assert limiter.hit("a").source == "refusal"
            except StoreError:
                failed_at.append(time.monotonic() - began)
        assert failed_at, "believed for longer than max_stale"
        # One caller in a timeout asks anew from three quarters on; the others are answered until the end.
        assert min(failed_at) > 1.3
        assert len([at for at in failed_at if at < 1.9]) <= 3
    finally:
        server.resume()


def test_a_large_value_is_not_kept(believing):
    limiter = Limiter(SlidingLog(400, 3600), name="api", store=believing)
    limiter.hit_many(["a"] * 401)
    assert sources(limiter) == {"store"}
