"""``overlimit.testing``: all limiters without a clock follow one, and counts that begin anew."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    hit_all,
)
from overlimit.aio import AsyncLimiter
from overlimit.testing import fresh_counts, manual_time
from overlimit.waiting import sleeping, wait_queues
from servers.patience import PATIENCE, eventually

from .outages import NOWHERE

START = 1_700_000_000


def limiter_on(store, limits="1/minute", **options):
    return Limiter(limits, **{"name": "default", "store": store, **options})


class TestEveryLimiterFollows:
    def test_those_that_exist_and_those_made_meanwhile(self, store):
        old = limiter_on(store)
        with manual_time(START) as clock:
            new = limiter_on(store)
            assert (old.hit("a").time, old.hit("a").allowed, new.hit("b").time) == (START, False, START)
            clock.advance(59.999)
            assert not new.hit("a")
            clock.advance(1.3)  # a block more than the period
            assert old.hit("a")
            assert not new.hit("a")
        for limiter in (old, new):
            assert abs(limiter.hit("c" + str(id(limiter))).time - time.time()) < PATIENCE

    def test_every_call_of_one(self, store):
        limiter = limiter_on(store, FixedWindow(2, 60))
        with manual_time(START) as clock:
            charged = limiter.hit("a")
            assert (limiter.peek("a").time, hit_all([(limiter, "a")]).time) == (START, START)
            many = limiter.hit_many(["a", "b"])
            assert [decision.time for decision in many] == [START, START]
            assert list(many.allowed) == [False, True]
            limiter.refund(charged)
            assert limiter.hit("a")
            limiter.lock("d", 100)
            clock.advance(99)
            assert limiter.hit("d").status == "locked"
            clock.advance(1)
            assert limiter.hit("d")

    def test_a_clock_of_its_own_is_kept(self, store):
        own = ManualClock(5)
        limiter = limiter_on(store, clock=own)
        with manual_time(START):
            assert limiter.hit("a").time == 5


class TestItsClock:
    def test_begins_where_it_is_told(self):
        with manual_time(datetime(2030, 1, 1, tzinfo=UTC)) as clock:
            assert Limiter("1/s").hit("a").time == clock.now() == 1_893_456_000

    def test_of_an_inner_block_is_followed_until_it_ends(self):
        limiter = Limiter("9/minute")
        with manual_time(100) as outer:
            with manual_time(200):
                assert limiter.hit("a").time == 200
                outer.advance(5)
            assert limiter.hit("a").time == 105

    def test_is_not_begun_at_a_wrong_instant(self):
        limiter = Limiter("9/minute")
        with pytest.raises(ValueError, match="1970"), manual_time(-1):
            pass
        with pytest.raises(ValueError, match="time zone"), manual_time(datetime(2030, 1, 1)):
            pass
        with pytest.raises(TypeError, match="aware datetime"), manual_time("2030-01-01"):
            pass
        assert limiter.hit("a").time > START

    def test_stands_for_a_function_that_it_decorates(self):
        @manual_time(100)
        def times():
            return Limiter("9/minute").hit("a").time

        assert [times(), times()] == [100, 100]

    def test_stands_for_a_coroutine_function_until_it_returns(self):
        @manual_time(100)
        async def times():
            await asyncio.sleep(0)
            return Limiter("9/minute").hit("a").time

        assert [asyncio.run(times()), asyncio.run(times())] == [100, 100]
        assert Limiter("9/minute").hit("a").time > START

    def test_stands_for_functions_alone(self):
        def times():
            yield Limiter("9/minute").hit("a").time

        class TestApp:
            pass

        for decorate, decorated, said in (
            (manual_time(100), times, r"generator function times, .* inside it"),
            (manual_time(100), TestApp, r"decorates functions, not the class TestApp"),
            (manual_time, len, r"write @manual_time\(\)"),
        ):
            with pytest.raises(TypeError, match=said):
                decorate(decorated)


class TestWaiting:
    def test_ends_when_the_clock_is_moved(self, store):
        limiter = limiter_on(store, FixedWindow(1, 3600))
        with manual_time(START) as clock, ThreadPoolExecutor(1) as pool:
            limiter.hit("a")
            waiting = pool.submit(limiter.acquire, "a", timeout=7200)
            eventually(lambda: wait_queues().by_family)
            assert not waiting.done()
            clock.advance(3600)
            assert waiting.result(PATIENCE).time == START + 3600

    def test_that_began_before_is_ended_by_the_clock_too(self):
        limiter = Limiter(FixedWindow(1, 3600))
        limiter.hit("a")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(limiter.acquire, "a", timeout=None)
            eventually(lambda: wait_queues().by_family)
            with manual_time() as clock:
                clock.advance(3601)
                assert waiting.result(PATIENCE)

    def test_raises_once_the_clock_has_not_moved_for_long(self, monkeypatch):
        monkeypatch.setattr(sleeping, "_LONGEST_STANDSTILL", 1.0)
        limiter = Limiter("1/second")
        with manual_time(START) as clock, ThreadPoolExecutor() as threads:
            assert limiter.hit("a")
            with pytest.raises(RuntimeError, match=r"for 1\.02 s by a clock that has not moved for 1 s"):
                limiter.acquire("a")  # whose timeout passes by the clock, so never
            moved = threads.submit(limiter.acquire, "a", timeout=1.2)
            for _ in range(12):
                time.sleep(0.1)  # more than a second in all, but never at once
                assert not moved.done()
                clock.advance(0.05)
            clock.advance(0.5)
            assert moved.result(PATIENCE)
        assert not wait_queues().by_family

    def test_raises_in_a_task_too(self, monkeypatch):
        monkeypatch.setattr(sleeping, "_LONGEST_STANDSTILL", 0.1)

        async def main():
            limiter = AsyncLimiter("1/second")
            assert await limiter.hit("a")
            with pytest.raises(RuntimeError, match="has not moved"):
                await limiter.acquire("a", timeout=None)

        with manual_time(START):
            asyncio.run(main())


class TestOthers:
    def test_the_local_fallback(self):
        limiter = limiter_on(RedisStore(NOWHERE), FixedWindow(1, 60), on_error="local")
        with manual_time(START) as clock:
            assert [limiter.hit("a").allowed, limiter.hit("a").allowed] == [True, False]
            clock.advance(60)
            assert limiter.hit("a").source == "local"
            assert limiter.hit_many(["b"])[0].time == START + 60


class TestFreshCounts:
    def test_of_a_store_object_and_the_one_of_the_process(self):
        on_object = limiter_on(MemoryStore())
        unnamed, with_clock = Limiter("1/day"), Limiter("1/day", name="fresh", clock=ManualClock(START))
        for _ in range(2):
            assert on_object.hit("a")
            assert unnamed.hit("a")
            assert with_clock.hit("a")
            assert not any(limiter.hit("a") for limiter in (on_object, unnamed, with_clock))
            fresh_counts()
        assert len(on_object.store) == 0

    def test_has_those_who_wait_ask_again(self):
        limiter = Limiter("1/day")
        limiter.hit("a")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(limiter.acquire, "a", timeout=None)
            eventually(lambda: (fresh_counts(), waiting.done())[1])
            assert waiting.result()

    def test_leaves_nothing_to_refund(self):
        limiter = Limiter(FixedWindow(9, 60), clock=ManualClock(START))
        charged = limiter.hit("a", cost=5)
        fresh_counts()
        limiter.hit("a", cost=3)
        limiter.refund(charged)
        assert limiter.peek("a", cost=0).remaining == 6

    @pytest.mark.parametrize("kind", ["redis_store", "shared_memory_store", "sqlite_store"])
    def test_leaves_what_others_see(self, request, kind):
        limiter = limiter_on(request.getfixturevalue(kind))
        limiter.hit("a")
        fresh_counts()
        assert not limiter.hit("a")
