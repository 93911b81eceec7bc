"""A store of one's own on an event loop: in a thread, or by a coroutine of its own."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from event_loops import Ticks
from overlimit import StoreTimeout, StoreUnavailable
from overlimit.aio import AsyncLimiter, hit_all
from overlimit.stores import Step, ValueStore
from own_stores import DictStore


class SlowStore(DictStore):
    """It takes its time, in which the loop must not be blocked."""

    seconds = 0.1

    def transact(self, keys: Sequence[str], step: Step) -> None:
        time.sleep(self.seconds)
        super().transact(keys, step)


class AwaitedStore(DictStore):
    """It is awaited, on the thread of the loop."""

    seconds = 0.01
    threads: set[int]

    def __init__(self) -> None:
        super().__init__()
        self.threads = set()
        self.begun = asyncio.Event()
        self.turn = asyncio.Lock()

    async def transact_async(self, keys: Sequence[str], step: Step) -> None:
        self.threads.add(threading.get_ident())
        async with self.turn:
            self.begun.set()
            writes = step([self.values.get(key) for key in keys]) or ()
            await asyncio.sleep(self.seconds)
            self.values |= {key: write.value for key, write in zip(keys, writes, strict=False) if write}


def limiter_on(store: ValueStore, limits: Any = "5/minute", **options: Any) -> AsyncLimiter:
    return AsyncLimiter(limits, **{"name": "p", "store": store, **options})


@pytest.mark.parametrize("make", [SlowStore, AwaitedStore])
def test_all_that_is_asked_is_awaited_and_blocks_no_loop(make: type[DictStore]):
    async def main() -> None:
        store, ticks = make(), Ticks()
        limiter, other = limiter_on(store), limiter_on(store, name="other")
        measuring = asyncio.create_task(ticks.run())
        decisions = await asyncio.gather(*(limiter.hit("a") for _ in range(8)))
        assert sum(each.allowed for each in decisions) == 5
        await limiter.refund(next(each for each in decisions if each))
        assert (await limiter.peek("a", cost=0)).remaining == 1
        assert sum((await limiter.hit_many([f"n{i % 3}" for i in range(100)])).allowed) == 15
        assert (await hit_all([(limiter, "x", 5), (other, "x", 1)])).allowed
        assert not await limiter.hit("x")
        settled = await limiter.settle(await limiter.charge("y", cost=4), 1)
        assert settled.remaining == 4
        await limiter.lock("y", 60)
        assert (await limiter.hit("y")).status == "locked"
        await limiter.unlock("y")
        assert (await limiter.acquire("y", timeout=9)).allowed
        await limiter.reset("x")
        assert (await limiter.hit("x")).allowed
        await limiter.reset_all()
        assert (await limiter.peek("a", cost=0)).remaining == 5
        assert 0 < await limiter.ping() < 5
        await limiter.close()
        measuring.cancel()
        ticks.assert_free()
        if isinstance(store, AwaitedStore):
            assert store.threads == {threading.get_ident()}
        assert (await limiter.stats())["calls"] > 20

    asyncio.run(main())


def test_errors_come_out_as_in_threads():
    class Failing(ValueStore):
        error: BaseException = OSError("gone")

        def transact(self, keys: Sequence[str], step: Step) -> None:
            step([None] * len(keys))
            raise self.error

    async def main() -> None:
        store = Failing()
        with pytest.raises(StoreUnavailable, match="gone") as raised:
            await limiter_on(store).hit("a")
        assert raised.value.__cause__ is store.error
        assert raised.value.maybe_charged
        assert (await limiter_on(store, on_error="allow").hit("a")).source == "error"
        assert [(await limiter_on(store, "1/minute", on_error="local").hit("a")).source] == ["local"]
        store.error = mine = StoreTimeout("mine")
        with pytest.raises(StoreTimeout) as timed_out:
            await limiter_on(store).hit("a")
        assert timed_out.value is mine

    asyncio.run(main())


def test_wrong_values_are_raised_where_the_call_is_awaited():
    class Wrong(AwaitedStore):
        async def transact_async(self, keys: Sequence[str], step: Step) -> None:
            step([])

    async def main() -> None:
        with pytest.raises(ValueError, match="as many as the keys: 1, not 0"):
            await limiter_on(Wrong()).hit("a")

    asyncio.run(main())


def test_one_that_is_no_coroutine_is_named():
    class Plain(DictStore):
        def transact_async(self, keys: Sequence[str], step: Step) -> Any:
            return 5

    async def main() -> None:
        with pytest.raises(
            TypeError, match=r"Plain\.transact_async must return a coroutine.*async def, not 5"
        ):
            await limiter_on(Plain()).hit("a")

    asyncio.run(main())


@pytest.mark.parametrize("make", [SlowStore, AwaitedStore])
def test_the_time_of_a_call_ends_it(make: type[SlowStore | AwaitedStore]):
    async def main() -> None:
        store = make()
        store.seconds, store.timeout = 0.6, 0.1
        began = time.monotonic()
        with pytest.raises(StoreTimeout) as raised:
            await limiter_on(store).hit("a")
        assert 0.1 <= time.monotonic() - began < 0.5
        assert raised.value.maybe_charged is (make is AwaitedStore)  # which had something to write by then
        store.seconds, store.timeout = 0.0, 5.0
        await asyncio.sleep(0.7)
        assert (await limiter_on(store).peek("a", cost=0)).remaining == 5

    asyncio.run(main())


def test_a_cancelled_hit_ends_its_coroutine_and_charges_nothing():
    async def main() -> None:
        store = AwaitedStore()
        limiter = limiter_on(store)
        hitting = asyncio.create_task(limiter.hit("a"))
        await store.begun.wait()
        hitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hitting
        assert (await limiter.peek("a", cost=0)).remaining == 5
        assert not store.values

    asyncio.run(main())


@pytest.mark.parametrize("make", [SlowStore, AwaitedStore])
def test_what_a_store_raises_after_a_cancellation_is_not_logged(make: type[DictStore], caplog):
    class Late(make):  # type: ignore[valid-type,misc]
        def transact(self, keys: Sequence[str], step: Step) -> None:
            time.sleep(0.05)
            raise OSError("nobody hears")

    class LateTask(AwaitedStore):
        async def transact_async(self, keys: Sequence[str], step: Step) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                raise OSError("nobody hears")

    async def main() -> None:
        hitting = asyncio.create_task(limiter_on(Late() if make is SlowStore else LateTask()).hit("a"))
        await asyncio.sleep(0.02)
        hitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hitting
        await asyncio.sleep(0.1)
        gc.collect()

    asyncio.run(main())
    assert not caplog.records


def test_a_loop_that_ends_in_the_middle_leaves_nothing_behind():
    store = SlowStore()

    async def main() -> None:
        limiter = limiter_on(store)
        asyncio.get_running_loop().create_task(limiter.peek("a"))
        asyncio.get_running_loop().create_task(limiter.hit("a"))
        await asyncio.sleep(0.02)

    asyncio.run(main())
    assert asyncio.run(_hit(store)).allowed


async def _hit(store: ValueStore) -> Any:
    return await limiter_on(store).hit("b")


def test_a_store_that_does_not_wait_is_called_at_once():
    store = DictStore()
    store.waits = False

    async def main() -> None:
        hit = limiter_on(store).hit("a")
        with pytest.raises(StopIteration) as ended:
            hit.send(None)
        assert ended.value.value.allowed

    asyncio.run(main())


@pytest.mark.parametrize(
    ("waits", "raised", "expected"),
    [
        (False, KeyboardInterrupt(), KeyboardInterrupt),
        (False, SystemExit(3), SystemExit),
        (False, ZeroDivisionError(), StoreUnavailable),
        (True, ZeroDivisionError(), StoreUnavailable),
        (False, None, ValueError),
        (True, None, ValueError),
    ],
    ids=repr,
)
def test_many_calls_raise_what_a_store_or_its_step_does(waits, raised, expected):
    class Store(ValueStore):
        is_shared = False

        def transact(self, keys: Sequence[str], step: Step) -> None:
            if raised is not None:
                raise raised
            step([])

    async def main() -> None:
        store = Store()
        store.waits = waits
        limiter = AsyncLimiter("5/minute", store=store)
        for ask in (limiter.hit_many, limiter.peek_many):
            with pytest.raises(expected) as error:
                await ask(["a", "b"])
            assert raised in {None, error.value, error.value.__cause__}

    asyncio.run(main())
