"""Tasks that are cancelled wherever they wait: what they hold, and what they leave to others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import time
import weakref

import pytest

from event_loops import LoopThread
from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    RateLimitExceeded,
    RedisStore,
    StoreError,
    TokenBucket,
    waiting,
)
from overlimit.aio import AsyncConcurrency, AsyncLimiter, acquire_all
from overlimit.recipes import Concurrency
from overlimit.stores import ValueStore
from programs import run
from servers.patience import PATIENCE

from .conftest import cancelled_at_each_wait

AMPLE = FixedWindow(1_000_000, per=86_400)
SLOWLY = 0.4


def nobody_waits():
    return not waiting.wait_queues().by_family


async def used(limiter, identifier):
    return limiter.limits[0].quota - (await limiter.peek(identifier, cost=0)).remaining


@pytest.mark.every_store
def test_an_acquire_that_is_cancelled_holds_nothing(build):
    limiter = build(FixedWindow(1000, per=86_400))

    async def main():
        async def check(was_cancelled):
            assert await used(limiter, "a") == (0 if was_cancelled else 7)
            assert nobody_waits()

        waits = await cancelled_at_each_wait(lambda: limiter.acquire("a", cost=7), check)
        assert waits == isinstance(limiter.store, RedisStore | ValueStore)

    asyncio.run(main())


@pytest.mark.every_store
def test_one_that_waits_for_its_turn_or_its_delay_holds_nothing_either(build):
    window = build(FixedWindow(1, per=0.2), name="window")
    queue = build(LeakyBucket(1, per=0.1, capacity=3), name="queue")

    async def main():
        async def check_window(was_cancelled):
            assert nobody_waits()

        async def wait_for_the_window():
            await window.hit("a")
            assert await window.acquire("a")

        assert await cancelled_at_each_wait(wait_for_the_window, check_window) >= 1

        async def check_queue(was_cancelled):
            assert nobody_waits()
            assert not was_cancelled or (await queue.hit("fresh")).delay == 0.0
            await queue.reset("fresh", "b")

        async def wait_for_the_delay():
            await queue.hit("b")
            assert (await queue.acquire("b")).delay > 0

        assert await cancelled_at_each_wait(wait_for_the_delay, check_queue) >= 1

    asyncio.run(main())


def test_what_is_granted_while_the_cancellation_is_on_its_way_is_given_back(proxy, redis_server, prefix):
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))
    direct = AsyncLimiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))

    async def main():
        await limiter.hit("other")
        proxy.delay(replies=SLOWLY)
        for after in (0.0, SLOWLY / 4, SLOWLY / 2):
            task = asyncio.create_task(limiter.acquire("a"))
            await asyncio.sleep(after)
            task.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < PATIENCE
            assert await used(direct, "a") == 0
        proxy.restore()
        other = AsyncLimiter("5/day", name="y", store=limiter.store)
        charges = [(limiter, "b"), (other, "b")]

        async def check(was_cancelled):
            assert await used(direct, "b") == (0 if was_cancelled else 1)

        assert await cancelled_at_each_wait(lambda: acquire_all(charges), check) == 1

    asyncio.run(main())


async def throttled(limiter, identifier):
    async with limiter.throttle(identifier):
        pass


WAITING = {
    "acquire": lambda limiter: limiter.acquire("a"),
    "acquire_all": lambda limiter: acquire_all([(limiter, "a")]),
    "throttle": lambda limiter: throttled(limiter, "a"),
}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("call", WAITING.values(), ids=WAITING)
def test_what_is_granted_while_the_loop_ends_is_given_back(proxy, redis_server, prefix, call, loop):
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))
    direct = Limiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))
    runner = asyncio if loop == "asyncio" else pytest.importorskip("uvloop")
    admitted = []

    async def ends_after(turns, seconds=0.0, is_awaited=False, cancelled=0, at_once=False):
        await limiter.hit("other")
        task = asyncio.ensure_future(call(limiter))
        task.add_done_callback(lambda task: task.cancelled() or admitted.append(task.result()))
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.sleep(seconds)
        for _ in range(cancelled):
            task.cancel()
            if not at_once:
                await asyncio.sleep(0)
        if is_awaited:
            await task

    proxy.delay(replies=0.02)
    for turns in (0, 1, 2, 4):
        runner.run(ends_after(turns))
    for seconds in (0.01, 0.021):
        runner.run(ends_after(1, seconds))
    for cancelled in (1, 2):
        for seconds in (0, 0.01, 0.03):
            runner.run(ends_after(2, seconds, cancelled=cancelled))
            runner.run(ends_after(2, seconds, cancelled=cancelled, at_once=True))
    runner.run(ends_after(0, is_awaited=True))
    assert 1 <= len(admitted) < 19
    assert AMPLE.quota - direct.peek("a", cost=0).remaining == len(admitted)


def test_a_second_cancellation_goes_on_at_once_and_what_was_granted_is_given_back_later(
    proxy, redis_server, prefix
):
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))
    direct = AsyncLimiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))

    async def main():
        await limiter.hit("other")
        proxy.hold_replies()
        task = asyncio.create_task(limiter.acquire("a"))
        while not await used(direct, "a"):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done(), "what it was granted is still on its way"
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        assert task.cancelled()
        assert await used(direct, "a") == 1
        proxy.restore()
        while await used(direct, "a"):
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_hit_that_is_cancelled_before_it_was_sent_charges_nothing(proxy, redis_server, prefix):
    proxy.hold_all()
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))
    direct = AsyncLimiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))

    async def main():
        tasks = [asyncio.create_task(limiter.hit("a")) for _ in range(20)]
        await asyncio.sleep(0.1)
        for task in tasks[1:]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks[1:], return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        proxy.restore()
        assert await tasks[0], "whoever stays is answered, though the one that connected is gone"
        assert await used(direct, "a") == 1

    asyncio.run(main())


def test_one_that_may_have_been_sent_leaves_its_reply_to_nobody_and_is_charged_once_at_most(
    proxy, redis_server, prefix
):
    direct = AsyncLimiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))

    async def main():
        for number in range(30):
            proxy.delay(replies=0.002)
            tasks = [asyncio.create_task(limiter.hit("all", f"{number} of {each}")) for each in range(10)]
            await asyncio.sleep(0.001 * (number % 4))
            for task in tasks[::2]:
                task.cancel()
            answers = await asyncio.gather(*tasks[1::2])
            assert [each.details[1].identifier for each in answers] == [
                f"{number} of {i}" for i in range(1, 10, 2)
            ]
            assert all(each.details[1].remaining == 999_999 for each in answers)
        assert 150 <= await used(direct, "all") <= 300

    asyncio.run(main())


def test_hit_many_that_is_cancelled_sends_no_more_rows(proxy, redis_server, prefix):
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))
    direct = AsyncLimiter(AMPLE, name="x", store=RedisStore(redis_server.unix_url(), prefix=prefix))

    async def main():
        await limiter.hit("other")
        proxy.hold_replies()
        task = asyncio.create_task(limiter.hit_many(["a"] * 100_000, timeout=PATIENCE))
        while not await used(direct, "a"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.restore()
        assert await limiter.hit("other"), "what it left unread is in nobody's way"
        sent = await used(direct, "a")
        await asyncio.sleep(0.2)
        assert 1 <= sent == await used(direct, "a") < 50_000

    asyncio.run(main())


def test_who_is_cancelled_at_the_head_lets_the_next_one_in_at_once():
    limiter = AsyncLimiter(TokenBucket(10, per=1), clock=ManualClock(1_700_000_000))

    async def main():
        await limiter.hit("a", cost=9)
        head = asyncio.create_task(limiter.acquire("a", cost=10, timeout=None))
        await asyncio.sleep(0)
        next_one = asyncio.create_task(limiter.acquire("a", timeout=None))
        await asyncio.sleep(0.05)
        assert not next_one.done()
        head.cancel()
        assert (await asyncio.wait_for(next_one, PATIENCE)).remaining == 0
        assert head.cancelled()
        assert nobody_waits()

    asyncio.run(main())


def test_ctrl_c_ends_a_loop_whose_tasks_wait_and_none_of_them_holds_anything(redis_store, ctrl_c):
    limiter = AsyncLimiter([AMPLE, FixedWindow(1, per=3600)], name="x", store=redis_store)

    async def main():
        await limiter.hit("a")
        for _ in range(5):
            asyncio.create_task(limiter.acquire("a", timeout=None))  # noqa: RUF006 - they end with the loop
        asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGINT)
        await limiter.acquire("a", timeout=None)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert time.monotonic() - began < PATIENCE
    assert nobody_waits()
    left = Limiter(limiter.limits, name="x", store=redis_store).peek("a", cost=0).details
    assert [row.remaining for row in left] == [999_999, 0]


def test_a_storm_of_cancellations_leaves_what_the_others_were_told(build):
    limiter = build(TokenBucket(1000, per=0.5, burst=20))

    async def main():
        async def caller(number):
            with contextlib.suppress(asyncio.TimeoutError):
                return bool(await asyncio.wait_for(limiter.acquire("a", timeout=5), 0.001 * (number % 50)))

        outcomes = await asyncio.gather(*map(caller, range(300)))
        assert 6 <= outcomes.count(True) <= 300
        assert nobody_waits()
        assert await limiter.acquire("a", cost=20, timeout=5)

    asyncio.run(main())


@pytest.mark.every_store
def test_a_slot_that_is_entered_while_cancelled_is_free(store):
    slots = AsyncConcurrency(3, store=store, name="slots")

    async def main():
        async def check(was_cancelled):
            assert await slots.in_use("a") == 0

        async def work():
            async with slots.slot("a") as slot:
                assert slot
                await asyncio.sleep(0)

        await cancelled_at_each_wait(work, check)

    asyncio.run(main())


@pytest.mark.every_store
def test_who_is_cancelled_while_it_waits_for_a_slot_holds_none_and_holds_nobody_up(store):
    slots = AsyncConcurrency(1, longest=600, store=store, name="slots")

    async def main():
        async def check(was_cancelled):
            assert await slots.in_use("a") == 0
            assert nobody_waits()

        async def work():
            held = await slots.acquire("a")
            waiting = asyncio.ensure_future(slots.acquire("a", timeout=PATIENCE))
            try:
                await asyncio.sleep(0.02)
                await held.leave()
                await (await waiting).leave()
            finally:
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await waiting).leave()
                await held.leave()

        await cancelled_at_each_wait(work, check)

    asyncio.run(main())


@pytest.mark.every_store
def test_tasks_and_threads_wait_for_slots_in_one_line(store):
    slots = AsyncConcurrency(1, longest=600, store=store, name="slots")
    blocking, order = Concurrency(1, longest=600, store=store, name="slots"), []

    async def of_task(number):
        async with slots.slot("a", timeout=None):
            order.append((number, await slots.in_use("a")))

    def of_thread(number):
        with blocking.slot("a", timeout=None):
            order.append((number, blocking.in_use("a")))

    async def main():
        held, callers = await slots.acquire("a"), []
        with pytest.raises(RateLimitExceeded):
            await slots.acquire("a", timeout=0.01)
        for number in range(6):
            kind = of_task(number) if number % 2 else asyncio.to_thread(of_thread, number)
            callers.append(asyncio.create_task(kind))
            while sum(map(len, waiting.wait_queues().by_family.values())) <= number:
                await asyncio.sleep(0.001)
        await held.leave()
        await asyncio.gather(*callers)

    asyncio.run(main())
    assert order == [(number, 1) for number in range(6)]
    assert nobody_waits()


@pytest.mark.every_store
def test_a_leave_that_is_cancelled_can_be_made_again(store):
    slots = AsyncConcurrency(3, store=store, name="slots")

    async def main():
        held = [await slots.enter("a")]

        async def check(was_cancelled):
            slot = held.pop()
            assert bool(slot) == was_cancelled
            await slot.leave()
            assert await slots.in_use("a") == 0
            held.append(await slots.enter("a"))

        task = asyncio.create_task(held[0].leave())
        task.cancel()  # before it has begun
        await asyncio.wait([task])
        await check(was_cancelled=True)
        await cancelled_at_each_wait(lambda: held[0].leave(), check)  # noqa: PLW0108 - another one each time

    asyncio.run(main())


def test_a_store_that_fails_when_a_block_ends_is_logged_and_entering_raises(start_redis, caplog):
    server = start_redis()
    slots = AsyncConcurrency(2, store=RedisStore(server.tcp_url(), timeout=0.2), name="slots")

    async def main():
        async with slots.slot("a") as slot:
            assert slot
            server.kill()
        assert [each.name for each in caplog.records if "a slot could not be left" in each.getMessage()] == [
            "overlimit"
        ]
        with pytest.raises(StoreError):
            await slots.enter("a")
        with pytest.raises(StoreError):
            async with slots.slot("a"):
                raise AssertionError

    asyncio.run(main())


@pytest.mark.every_store
@pytest.mark.parametrize("ends", ["closed", "dropped"])
def test_nobody_waits_behind_those_whose_loop_has_ended(store, ends):
    limiter = AsyncLimiter("5/hour", name="x", store=store)

    def wait_on_another_loop():
        loop = asyncio.new_event_loop()

        async def begin():
            waiting = [asyncio.create_task(limiter.acquire("a", cost=3, timeout=None)) for _ in range(3)]
            await waiting[0]
            await asyncio.sleep(0.05)
            return waiting

        waiting = loop.run_until_complete(begin())
        for task in waiting:
            task._log_destroy_pending = False
        if ends == "closed":
            loop.close()
            return waiting
        for each in (loop._selector, loop._ssock, loop._csock):  # what a loop that nobody closes warns of
            each.close()
        loop._closed = True
        dropped.append(weakref.ref(loop))
        return None

    dropped = []

    kept = wait_on_another_loop()
    gc.collect()
    assert asyncio.run(limiter.acquire("a", timeout=1))
    assert asyncio.run(limiter.acquire("a", timeout=None))
    del kept
    gc.collect()
    assert nobody_waits()
    assert [each() for each in dropped] == [None] * (ends == "dropped")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_slot_whose_block_ends_with_the_loop_is_left(proxy, redis_server, prefix, at_once):
    slots = AsyncConcurrency(2, store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix), name="slots")
    direct = AsyncConcurrency(2, store=RedisStore(redis_server.unix_url(), prefix=prefix), name="slots")

    async def hold():
        async with slots.slot("a") as slot:
            assert slot
            await asyncio.sleep(PATIENCE)

    async def main():
        task = asyncio.create_task(hold())
        while not await direct.in_use("a"):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        proxy.delay(replies=0.05)
        task.cancel()
        if not at_once:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert asyncio.run(direct.in_use("a")) == 0


@pytest.mark.every_store
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_slot_that_is_dropped_is_left_in_memory_even_if_the_loop_ends_at_once(store, goes_on):
    slots = AsyncConcurrency(2, store=store, name="slots")

    async def drop():
        slot = await slots.enter("a")
        assert slot
        del slot
        gc.collect()
        while goes_on and await slots.in_use("a"):
            await asyncio.sleep(0)

    asyncio.run(drop())
    if goes_on or isinstance(store, MemoryStore):
        assert asyncio.run(slots.in_use("a")) == 0


@pytest.mark.every_store
def test_threads_and_tasks_of_any_loop_are_served_in_the_order_in_which_they_came(store):
    """While some are served, others come; each comes when the one before it stands in the line."""
    limits = FixedWindow(1, per=0.03)
    tasks = AsyncLimiter(limits, name="x", store=store)
    threads = Limiter(limits, name="x", store=store)
    order = []
    loop = LoopThread()

    async def of_task(number):
        assert await tasks.acquire("a", timeout=None)
        order.append(number)

    def of_thread(number):
        assert threads.acquire("a", timeout=None)
        order.append(number)

    async def main():
        await tasks.hit("a")
        callers = []
        for number in range(15):
            if number % 3 == 0:
                callers.append(asyncio.create_task(of_task(number)))
            elif number % 3 == 1:
                callers.append(asyncio.create_task(asyncio.to_thread(of_thread, number)))
            else:
                callers.append(asyncio.create_task(asyncio.to_thread(loop.run, of_task(number))))
            while sum(map(len, waiting.wait_queues().by_family.values())) + len(order) <= number:
                await asyncio.sleep(0.001)
        await asyncio.gather(*callers)

    try:
        asyncio.run(main())
    finally:
        loop.stop()
    assert order == list(range(15))


def test_a_program_ends_whatever_acquires_ask(redis_server):
    program = """
        import asyncio, sys
        from overlimit.aio import AsyncLimiter
        limiter = AsyncLimiter("100/hour", name="exit", store=sys.argv[1])
        loop = asyncio.new_event_loop()

        async def main():
            global tasks
            tasks = [loop.create_task(limiter.acquire("a", timeout=None)) for _ in range(8)]
            await asyncio.sleep(0)

        loop.run_until_complete(main())
        print("ends")
    """
    done = run(program, redis_server.tcp_url())
    assert (done.returncode, done.stdout) == (0, "ends\n")


def test_a_child_that_cancels_its_copies_leaves_the_calls_of_its_parent_alone(proxy, prefix):
    limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(proxy.url, timeout=PATIENCE, prefix=prefix))

    async def main():
        await limiter.hit("a")
        proxy.delay(replies=0.3)
        tasks = [asyncio.create_task(limiter.hit("a")) for _ in range(6)]
        await asyncio.sleep(0.05)
        child = os.fork()
        if child == 0:
            try:
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert all(await asyncio.gather(*tasks))

    asyncio.run(main())
