"""Locks: who goes over a limit is out for a while, longer each time; and bans by hand."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    Penalty,
    RedisStore,
    StoreUnavailable,
)
from overlimit.stores.memory import local_fallback_of
from servers.patience import PATIENCE, eventually

ONE = FixedWindow(1, 1)


def violate(limiter, identifier="a"):
    """Go over ``ONE`` and return the refusal that sets the lock."""
    while limiter.hit(identifier):
        pass
    return limiter.peek(identifier, cost=0)


class TestByHand:
    @pytest.mark.parametrize("seconds", [-1, -1e-6, math.nan, math.inf, 1e30])
    def test_a_time_that_cannot_be_is_a_value_error(self, build, seconds):
        limiter = build(ONE)
        with pytest.raises(ValueError, match="seconds"):
            limiter.lock("a", seconds)
        assert limiter.hit("a")

    def test_they_keep_what_has_expired_since_by_a_clock_that_goes_back_it_counts(self, build, at):
        limiter = build(ONE)
        assert limiter.hit("a")
        at(1)
        limiter.lock("a", 1)
        at(0.75)
        limiter.unlock("a")
        assert (refusal := limiter.peek("a")).status == "over"
        assert refusal.retry_after == 0.25


class TestUnlocking:
    def test_lifts_the_lock_of_a_penalty_and_keeps_its_level(self, build):
        limiter = build(ONE, penalty=Penalty([2, 4, 8]))
        violate(limiter)
        assert limiter.peek("a", cost=0).status == "locked"
        limiter.unlock("a")
        assert limiter.peek("a", cost=0)
        assert violate(limiter).retry_after == 4.0
        limiter.unlock("a")
        assert violate(limiter).retry_after == 8.0

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
