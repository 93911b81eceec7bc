"""Locks: who goes over a limit is out for a while, longer each time; and bans by hand."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    MemoryStore,
    Penalty,
    RedisStore,
    SlidingWindow,
    StoreUnavailable,
    hit_all,
)
from overlimit.stores.memory import local_fallback_of
from servers.patience import PATIENCE, eventually

ONE = FixedWindow(1, 1)


def violate(limiter, identifier="a"):
    """Go over ``ONE`` and return the refusal that sets the lock."""
    while limiter.hit(identifier):
        pass
    return limiter.peek(identifier, cost=0)


class TestLocking:
    def test_a_wait_that_is_longer_than_the_lock_stays(self, build, at):
        limiter = build(FixedWindow(1, 100), penalty=Penalty(30))
        limiter.hit("a")
        assert limiter.hit("a").retry_after == 100.0
        at(29.999999)
        assert (limiter.hit("a").status, limiter.hit("a").retry_after) == ("locked", 70.000001)
        at(30)
        assert limiter.peek("a").status == "over"
        assert limiter.peek("a", cost=0).status == "ok"

    def test_hit_all_locks_in_the_policy_that_refused(self, build):
        strict, wide = (
            build(ONE, name="strict", penalty=Penalty(30)),
            build(FixedWindow(9, 60), name="wide", penalty=Penalty(30)),
        )
        assert hit_all([(strict, "a", 1), (wide, "a", 1)])
        assert hit_all([(strict, "a", 1), (wide, "a", 1)]).status == "over"
        assert strict.peek("a", cost=0).status == "locked"
        assert wide.peek("a", cost=0).remaining == 8


class TestByHand:
    def test_of_one_identifier_leaves_others_free(self, build):
        limiter = build(ONE)
        limiter.lock(b"a", 30)
        assert limiter.peek("a").status == "locked"
        assert limiter.hit("b")
        assert limiter.hit("a", "c").status == "locked"
        assert limiter.hit("c")

    @pytest.mark.parametrize("seconds", [-1, -1e-6, math.nan, math.inf, 1e30])
    def test_a_time_that_cannot_be_is_a_value_error(self, build, seconds):
        limiter = build(ONE)
        with pytest.raises(ValueError, match="seconds"):
            limiter.lock("a", seconds)
        assert limiter.hit("a")


class TestUnlocking:
    @pytest.mark.parametrize("penalty", [None, Penalty([20, 40])])
    def test_lifts_a_ban_at_once_and_keeps_what_was_counted(self, build, penalty):
        limiter = build(FixedWindow(5, 3600), penalty=penalty)
        limiter.hit("a", cost=2)
        limiter.lock("a", seconds=30)
        limiter.lock("b", 30)
        assert limiter.hit("a").status == "locked"
        limiter.unlock("a")
        assert limiter.hit("a").remaining == 2
        assert limiter.hit("b").status == "locked"

    @pytest.mark.parametrize("more", [1, 4, 15])
    def test_lifts_a_lock_that_was_set_before_limits_were_added(self, build, more):
        limiter = build(ONE)
        limiter.lock("a", 100)
        limiter.update([ONE, *(SlidingWindow(9, 60 + k) for k in range(more))])
        limiter.unlock("a")
        assert limiter.hit("a").status == "ok"

    def test_lifts_a_penalty_that_was_set_under_fewer_limits(self, build, at):
        name = "grown"
        violate(build(ONE, name=name, penalty=Penalty(3600)))
        limiter = build([ONE, SlidingWindow(50, 3600)], name=name, penalty=Penalty(3600))
        at(2)
        limiter.unlock("a")
        assert limiter.hit("a").status == "ok"

    def test_lifts_the_lock_of_a_penalty_and_keeps_its_level(self, build):
        limiter = build(ONE, penalty=Penalty([2, 4, 8]))
        violate(limiter)
        assert limiter.peek("a", cost=0).status == "locked"
        limiter.unlock("a")
        assert limiter.peek("a", cost=0)
        assert violate(limiter).retry_after == 4.0
        limiter.unlock("a")
        assert violate(limiter).retry_after == 8.0

    def test_remembers_the_level_as_long_as_it_was_to_be_remembered_after_the_lock(self, build, at):
        limiter = build(ONE, penalty=Penalty([2, 4], forget_after=10))
        violate(limiter)
        at(1)
        limiter.unlock("a")
        at(10.999999)
        assert violate(limiter).retry_after == 4.0
        limiter.unlock("a")
        at(30)
        assert violate(limiter).retry_after == 2.0

    def test_the_refusal_after_it_is_as_any_other(self, build):
        limiter = build(ONE)
        limiter.hit("a")
        limiter.lock("a", 7200)
        limiter.unlock("a")
        refused = limiter.peek("a")
        assert (refused.status, refused.remaining) == ("over", 0)
        assert 0 < refused.retry_after <= 1

    def test_of_nobody_known_and_of_nobody_locked_changes_nothing(self, build, store):
        limiter = build(FixedWindow(5, 3600), penalty=Penalty(5))
        limiter.unlock("a")
        if isinstance(store, MemoryStore):
            assert len(store) == 0
        limiter.hit("a", cost=2)
        limiter.unlock("a")
        limiter.unlock("a")
        assert limiter.peek("a", cost=0).remaining == 3

    def test_of_a_clock_that_went_back(self, build, at):
        limiter = build(FixedWindow(5, 3600))
        at(100)
        limiter.lock("a", 50)
        at(10)
        limiter.unlock("a")
        assert limiter.hit("a")

    def test_lets_in_who_waits(self, build):
        limiter = build(FixedWindow(1, 3600))
        limiter.lock("a", 3000)
        with ThreadPoolExecutor() as pool:
            caller = pool.submit(limiter.acquire, "a", timeout=7200)
            while not limiter.clock._wake_ups:
                time.sleep(0.001)
            limiter.unlock("a")
            assert caller.result(PATIENCE).time == 1_700_000_000

    def test_says_when_the_store_cannot_answer(self):
        for on_error in ("raise", "allow"):
            with pytest.raises(StoreUnavailable):
                Limiter(ONE, name="p", store="unix:///nowhere/redis.sock", on_error=on_error).unlock("a")

    def test_lifts_what_this_process_has_locked_by_itself(self, start_redis, clock):
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=PATIENCE)
        limiter = Limiter(ONE, name="p", store=store, clock=clock, penalty=Penalty(60), on_error="local")
        port = server.port
        server.stop()
        violate(limiter)
        assert limiter.peek("a", cost=0).status == "locked"
        start_redis(port=port)
        eventually(lambda: limiter.hit("b").source == "store")
        limiter.unlock("a")
        fallback = local_fallback_of(store)
        assert Limiter(ONE, name="p", store=fallback, clock=clock).peek("a", cost=0)
