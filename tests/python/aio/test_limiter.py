"""An AsyncLimiter is a Limiter whose calls are awaited."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RateLimitExceeded,
    RedisStore,
    StoreUnavailable,
    TokenBucket,
    aio,
)
from overlimit import hit_all as hit_all_now
from overlimit.aio import AsyncConcurrency, AsyncLimiter, acquire_all, hit_all, peek_all
from overlimit.recipes import Concurrency
from servers.patience import PATIENCE

NOT_AWAITED = {"with_limits", "throttle"}
"""What asks nobody."""
NOWHERE = "redis://127.0.0.1:1/0"


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_it_has_all_that_a_limiter_has_and_its_methods_are_awaited():
    assert public(AsyncLimiter) - public(Limiter) == {"ping", "close"}
    assert public(Limiter) - public(AsyncLimiter) == set()
    methods = {name for name in public(AsyncLimiter) if inspect.isfunction(getattr(AsyncLimiter, name))}
    awaited = {name for name in methods if inspect.iscoroutinefunction(getattr(AsyncLimiter, name))}
    assert methods - awaited == NOT_AWAITED
    assert all(inspect.iscoroutinefunction(each) for each in (hit_all, peek_all, acquire_all))
    assert {"AsyncLimiter", "AsyncConcurrency", "hit_all", "peek_all", "acquire_all"} <= set(aio.__all__)


@pytest.mark.parametrize("name", sorted(public(Limiter) & public(AsyncLimiter)))
def test_arguments_are_called_and_default_as_those_of_a_limiter(name):
    mine, theirs = getattr(AsyncLimiter, name), getattr(Limiter, name)
    if not inspect.isfunction(mine):
        return
    try:
        expected = inspect.signature(theirs).parameters
    except ValueError:  # of the core
        return
    own = inspect.signature(mine).parameters
    assert [(each.name, each.kind, each.default) for each in list(own.values())[1:]] == [
        (each.name, each.kind, each.default) for each in list(expected.values())[1:]
    ]


@pytest.mark.every_store
def test_it_answers_as_a_limiter_of_its_name_does(store):
    clock = ManualClock(1_700_000_000)
    options = {"store": store, "clock": clock, "penalty": Penalty([5, 20])}
    limits = "3/second; 5/minute"
    awaited = AsyncLimiter(limits, name="awaited", **options)
    blocking = Limiter(limits, name="blocking", **options)

    async def main():
        for step in range(12):
            cost = step % 3
            assert (await awaited.peek("a", "b")).remaining == blocking.peek("a", "b").remaining
            mine, theirs = await awaited.hit("a", cost=cost), blocking.hit("a", cost=cost)
            assert (mine.status, mine.remaining, mine.retry_after) == (
                theirs.status,
                theirs.remaining,
                theirs.retry_after,
            )
            if step % 4 == 1:
                await awaited.refund(mine)
                blocking.refund(theirs)
            elif step % 4 == 3:
                assert bool(await awaited.settle(mine, 2)) == bool(blocking.settle(theirs, 2))
            clock.advance(0.7)
        mine, theirs = await awaited.charge("a", cost=9), blocking.charge("a", cost=9)
        assert (mine.status, mine.remaining) == (theirs.status, theirs.remaining)
        many, others = (
            await awaited.hit_many(["a", "b", ("c", "d")], [1, 2, 3]),
            blocking.hit_many(["a", "b", ("c", "d")], [1, 2, 3]),
        )
        assert [each.status for each in many] == [each.status for each in others]
        await awaited.lock("z", 5)
        assert (await awaited.hit("z")).status == "locked"
        await awaited.unlock("z")
        assert await awaited.hit("z")
        await awaited.reset("a", "b")
        assert (await awaited.peek("a", cost=0)).remaining == 3
        await awaited.reset_all()
        assert (await awaited.peek("c", cost=0)).remaining == 3
        await awaited.update("1/second")
        assert [bool(await awaited.hit("u")) for _ in range(2)] == [True, False]
        assert await awaited.with_limits("7/minute").hit("w")
        stats = await awaited.stats()
        assert stats["calls"] > 20
        assert stats["breaker"] == "closed"
        assert await awaited.ping() >= 0.0

    asyncio.run(main())


@pytest.mark.every_store
def test_both_are_one_policy_and_refund_each_other_s_decisions(store):
    awaited = AsyncLimiter("5/day", name="x", store=store)
    blocking = Limiter("5/day", name="x", store=store)

    async def main():
        decision = await awaited.hit("a", cost=3)
        blocking.refund(decision)
        await awaited.refund(decision)
        await awaited.refund(blocking.hit("a", cost=2))
        assert (await awaited.peek("a", cost=0)).remaining == blocking.peek("a", cost=0).remaining == 5
        other = AsyncLimiter("9/day", name="y", store=store)
        both = await hit_all([(awaited, "a", 2), (other, "a")])
        assert both.cost == 3
        assert await peek_all([(awaited, "a", 3), (other, "b")])
        assert not await peek_all([(awaited, "a", 4), (other, "b")])
        assert (await acquire_all([(awaited, "a", 3), (other, "b", 8)])).remaining == 0
        assert not await acquire_all([(awaited, "a"), (other, "c")], timeout=0)
        assert (await other.peek("c", cost=0)).remaining == 9
        assert not hit_all_now([(blocking, "a")])

    asyncio.run(main())


@pytest.mark.every_store
def test_calendars_of_python_are_asked_in_the_middle_of_a_call(store):
    limiter = AsyncLimiter(
        FixedWindow(2, "day", start="calendar", timezone="Europe/Berlin"), name="c", store=store
    )

    async def main():
        assert [bool(each) for each in await asyncio.gather(*[limiter.hit("a") for _ in range(3)])] == [
            True,
            True,
            False,
        ]

    asyncio.run(main())


@pytest.mark.parametrize("on_error", ["raise", "allow", "deny", "local"])
def test_on_error_decides_while_the_store_fails(on_error):
    limiter = AsyncLimiter("2/day", name="x", store=RedisStore(NOWHERE, timeout=PATIENCE), on_error=on_error)

    async def main():
        if on_error == "raise":
            with pytest.raises(StoreUnavailable):
                await limiter.hit("a")
            return
        decisions = [await limiter.hit("a") for _ in range(3)]
        expected = {"allow": [True] * 3, "deny": [False] * 3, "local": [True, True, False]}
        assert [bool(each) for each in decisions] == expected[on_error]
        assert decisions[0].source == ("local" if on_error == "local" else "error")
        assert (await limiter.stats())["errors"]["unavailable"] == 3

    asyncio.run(main())


def test_wrong_arguments_are_the_errors_of_a_limiter():
    limiter = AsyncLimiter("2/day")

    async def main():
        for call, error in (
            (limiter.hit, ValueError),
            (lambda: limiter.hit(5), TypeError),
            (lambda: limiter.hit("a", cost=-1), ValueError),
            (lambda: limiter.hit_many("a"), TypeError),
            (lambda: limiter.acquire("a", timeout=-1), ValueError),
            (lambda: limiter.refund("a"), TypeError),
            (lambda: limiter.lock("a", 0), InvalidLimit),
            (lambda: limiter.update("x"), InvalidLimit),
            (lambda: hit_all([]), ValueError),
            (lambda: hit_all(5), TypeError),
            (lambda: hit_all([(limiter,)]), TypeError),
            (lambda: acquire_all([(limiter, "a"), (limiter, "a")]), ValueError),
        ):
            with pytest.raises(error):
                await call()

    asyncio.run(main())
    with pytest.raises(InvalidLimit):
        AsyncLimiter("5/fortnight")
    with pytest.raises(TypeError, match="name="):
        AsyncLimiter("5/minute", "login")
    hit = AsyncLimiter("2/day", name="x", store=RedisStore(NOWHERE)).hit("a")
    with pytest.raises(RuntimeError, match="no running event loop"):
        hit.send(None)


def test_it_pickles_and_copies_and_shows_what_it_is():
    limiter = AsyncLimiter("5/minute", name="x", store=RedisStore(NOWHERE), on_error="deny")
    for other in (pickle.loads(pickle.dumps(limiter)), copy.copy(limiter)):
        assert isinstance(other, AsyncLimiter)
        assert (other.name, other.limits, other.on_error) == ("x", limiter.limits, "deny")
    assert repr(limiter).startswith("AsyncLimiter([SlidingWindow(5, per=60)], name='x'")
    assert limiter._repr_html_()


def test_on_decision_is_told_of_each_decision_once():
    told = []
    limiter = AsyncLimiter("2/day", on_decision=told.append, store=MemoryStore())

    async def main():
        return [await limiter.hit("a"), await limiter.acquire("a"), *await limiter.hit_many(["b", "c"])]

    assert asyncio.run(main()) == told


def test_a_slot_that_is_not_entered_by_async_with_says_what_to_write():
    slots = AsyncConcurrency(1)

    async def main():
        with pytest.raises(TypeError, match="decorates nothing: write async with"):

            @slots.slot("a")
            async def never_made(): ...

        with pytest.raises(TypeError, match="is awaited: write async with"), slots.slot("a"):
            raise AssertionError
        with pytest.raises(TypeError, match="is awaited: write async with"):
            await slots.slot("a")
        slot = await slots.acquire("a")
        for each in (slot, slots):
            with pytest.raises(AttributeError, match="write async with"):
                async with each:
                    raise AssertionError
        with pytest.raises(AttributeError, match="write async with"), slot:
            raise AssertionError
        assert slot

    asyncio.run(main())


@pytest.mark.every_store
def test_slots_are_those_of_a_concurrency_of_the_name(store):
    slots = AsyncConcurrency(2, store=store, name="slots")
    blocking = Concurrency(2, store=store, name="slots")

    async def main():
        async with slots.slot("a") as first, slots.slot("a") as second:
            assert first
            assert second
            with pytest.raises(RateLimitExceeded):
                async with slots.slot("a"):
                    raise AssertionError
            assert await slots.enter("a") is None
            assert await slots.in_use("a") == blocking.in_use("a") == 2
        assert not first
        assert await slots.in_use("a") == 0
        held = await slots.enter("a")
        assert held
        await held.leave()
        await held.leave()
        assert await slots.in_use("a") == 0
        dropped = await slots.enter("a")
        assert dropped
        del dropped
        while await slots.in_use("a"):
            await asyncio.sleep(0.001)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(await slots.enter("b"))

    asyncio.run(main())


def test_waiting_follows_the_clock_of_a_test():
    clock = ManualClock(1_700_000_000)
    limiter = AsyncLimiter(TokenBucket(1, per=10), clock=clock)

    async def main():
        await limiter.hit("a")
        waits = asyncio.create_task(limiter.acquire("a", timeout=60))
        await asyncio.sleep(0.01)
        assert not waits.done()
        await asyncio.to_thread(clock.advance, 10)
        assert await waits

    asyncio.run(main())
