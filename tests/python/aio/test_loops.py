"""Event loops: several at once, closed ones, and that none is ever blocked."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import pytest

from event_loops import Ticks
from overlimit import Limiter, RedisStore, SharedMemoryStore, StoreError, StoreTimeout, TokenBucket
from overlimit.aio import AsyncLimiter, hit_all
from overlimit.stores import ValueStore
from programs import output_of
from servers.patience import PATIENCE, eventually

AMPLE = "1000000/day"


def open_descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def clients(server):
    """How many connections a server has, but for the one that asks."""
    with server.client() as client:
        return len(client.client_list()) - 1


@pytest.fixture
def own(start_redis, prefix):
    """A server of its own, and a limiter on it."""
    server = start_redis()
    return server, AsyncLimiter(
        AMPLE, name="x", store=RedisStore(server.tcp_url(), timeout=PATIENCE, prefix=prefix)
    )


def test_all_tasks_of_a_loop_share_one_connection(own):
    server, limiter = own

    async def main():
        decisions = await asyncio.gather(*[limiter.hit("a") for _ in range(500)])
        assert sorted(each.remaining for each in decisions) == list(range(999_500, 1_000_000))
        return clients(server)

    assert asyncio.run(main()) == 1


def test_their_calls_are_sent_together(own):
    server, limiter = own

    def reads():
        with server.client() as client:
            return client.info("stats")["total_reads_processed"]

    async def main():
        await limiter.hit("a")
        before = reads()
        await asyncio.gather(*[limiter.hit("a") for _ in range(1000)])
        return reads() - before

    assert 1 <= asyncio.run(main()) < 100


@pytest.mark.parametrize("ends", ["run", "closed", "closed with a call under way", "limiter closed"])
def test_a_loop_leaves_nothing_behind(own, ends):
    server, limiter = own
    asyncio.run(asyncio.sleep(0))
    before = open_descriptors()
    if ends == "run":
        asyncio.run(limiter.hit("a"))
    elif ends == "limiter closed":

        async def hit_and_close():
            await limiter.hit("a")
            await limiter.close()
            assert await asyncio.to_thread(eventually, lambda: clients(server) == 0)
            assert await limiter.hit("a")

        asyncio.run(hit_and_close())
    else:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(limiter.hit("a"))
        if ends == "closed":
            loop.close()
        else:
            server.pause()
            task = loop.create_task(limiter.hit("a"))
            loop.run_until_complete(asyncio.sleep(0.01))
            loop.close()
            task._log_destroy_pending = False
            del task
            server.resume()
    assert open_descriptors() == before
    eventually(lambda: clients(server) == 0)


def test_closing_the_connections_keeps_no_call_that_is_under_way_beyond_its_timeout(own, prefix):
    server, _ = own
    store = RedisStore(server.tcp_url(), timeout=0.3, prefix=prefix)
    limiter = AsyncLimiter(AMPLE, name="x", store=store)

    async def main():
        await limiter.hit("a")
        server.pause()
        began = time.monotonic()
        tasks = [asyncio.create_task(limiter.hit("a")) for _ in range(5)]
        await asyncio.sleep(0.01)
        await limiter.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, StoreError) for each in outcomes), outcomes
        assert time.monotonic() - began < 3.0
        server.resume()
        while not await answers():
            await asyncio.sleep(0.01)

    async def answers():
        with contextlib.suppress(StoreError):
            return bool(await limiter.hit("b"))

    asyncio.run(main())


def test_several_loops_in_several_threads_have_a_connection_each_and_count_together(own):
    server, limiter = own
    all_in = threading.Barrier(5)

    def in_a_loop_of_its_own(_):
        async def main():
            for _ in range(50):
                await limiter.hit("a")
            await asyncio.to_thread(all_in.wait, PATIENCE)
            await asyncio.to_thread(all_in.wait, PATIENCE)

        asyncio.run(main())

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(in_a_loop_of_its_own, number) for number in range(4)]
        all_in.wait(PATIENCE)
        assert clients(server) == 4
        all_in.wait(PATIENCE)
        for each in work:
            each.result()
    assert Limiter(AMPLE, name="x", store=limiter.store).peek("a", cost=0).remaining == 999_800


def test_one_limiter_goes_from_loop_to_loop(own):
    _, limiter = own
    assert [asyncio.run(limiter.hit("a")).remaining for _ in range(20)] == list(range(999_999, 999_979, -1))


def test_a_forked_child_has_loops_of_its_own(own):
    _, limiter = own

    async def main():
        await limiter.hit("a")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                # Of an event loop that runs a child cannot use another one in this thread.
                with ThreadPoolExecutor(1) as pool:
                    code = int(pool.submit(asyncio.run, limiter.hit("a")).result().remaining != 999_998)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return (await limiter.hit("a")).remaining

    assert asyncio.run(main()) == 999_997


def test_uvloop_is_a_loop_like_any_other(own):
    uvloop = pytest.importorskip("uvloop")
    server, limiter = own

    async def main():
        await asyncio.gather(*[limiter.hit("a") for _ in range(100)])
        slow = AsyncLimiter("1 per 100ms", name="slow", store=limiter.store)
        assert all([await slow.acquire("a") for _ in range(3)])
        return clients(server)

    assert uvloop.run(main()) == 1
    eventually(lambda: clients(server) == 0)


def test_the_debug_mode_of_asyncio_finds_nothing(own, caplog):
    """No coroutine that nobody awaits, and nothing of a loop that another thread calls."""
    _, limiter = own
    queue = AsyncLimiter("1 per 100ms", name="queue", store=limiter.store)

    def in_thread():
        assert Limiter(queue.limits, name="queue", store=limiter.store).acquire("a", timeout=None)

    async def main():
        assert all(await asyncio.gather(*[limiter.hit("a") for _ in range(50)]))
        threads = [asyncio.to_thread(in_thread) for _ in range(3)]
        await asyncio.gather(*threads, *[queue.acquire("a", timeout=None) for _ in range(3)])
        for call in (limiter.hit("a"), limiter.acquire("a"), queue.acquire("a", timeout=None)):
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert (await limiter.peek("a", cost=0)).remaining >= 999_949
        await limiter.close()

    asyncio.run(main(), debug=True)
    gc.collect()
    messages = [each.getMessage() for each in caplog.records if each.name == "asyncio"]
    assert [each for each in messages if "Executing" not in each and "selector" not in each] == []


class TestMemory:
    @pytest.mark.every_store
    def test_a_call_is_done_without_a_switch_to_another_task(self, store):
        if isinstance(store, RedisStore | ValueStore):
            pytest.skip("it is waited for")
        limiter = AsyncLimiter("5/minute", name="x", store=store)
        before = threading.enumerate()

        async def main():
            others = asyncio.create_task(asyncio.sleep(0))
            decision = await limiter.hit("a")
            await limiter.charge("a")
            await limiter.settle(decision, 2)
            await limiter.refund(await limiter.acquire("a"))
            await limiter.peek("a")
            await hit_all([(limiter, "a")])
            await limiter.lock("b", 1)
            await limiter.unlock("b")
            await limiter.reset("a")
            assert not others.done()
            await others

        asyncio.run(main())
        assert not [each for each in threading.enumerate() if each not in before and "overlimit" in each.name]

    def test_long_calls_leave_the_loop_to_others(self):
        limiter = AsyncLimiter(AMPLE)
        rows = [f"user:{i % 50_000}" for i in range(200_000)]

        async def main():
            ticks = Ticks()
            ticking = asyncio.create_task(ticks.run())
            await asyncio.sleep(0.01)
            decisions = await limiter.hit_many(rows)
            await limiter.reset_all()
            await asyncio.sleep(0.01)
            ticking.cancel()
            ticks.assert_free()
            return decisions

        decisions = asyncio.run(main())
        assert len(decisions) == 200_000
        assert decisions[199_999].remaining == 999_996


class TestSharedMemory:
    def test_a_process_that_stops_in_the_middle_of_a_call_blocks_no_loop(self, shared_memory_store):
        """The holder of every lock is stopped: calls end at their timeout, and others run meanwhile."""
        timeout = 0.3
        path = shared_memory_store.path
        Limiter(AMPLE, name="x", store=shared_memory_store).hit("warm")
        script = """
            import os, signal, sys
            from overlimit import Limiter, SharedMemoryStore
            limiter = Limiter("1000000/day", name="x", store=SharedMemoryStore(sys.argv[1]))
            identifiers = [f"user:{i}" for i in range(64)]
            print("ready", flush=True)
            while True:
                for each in identifiers:
                    limiter.hit(each)
        """
        program = subprocess.Popen([sys.executable, "-c", dedent(script), path], stdout=subprocess.PIPE)
        limiter = AsyncLimiter(AMPLE, name="x", store=SharedMemoryStore(path, timeout=timeout))

        async def main():
            ticks = Ticks()
            ticking = asyncio.create_task(ticks.run())
            late = 0
            for _ in range(400):
                os.kill(program.pid, signal.SIGSTOP)
                try:
                    await asyncio.gather(*[limiter.hit(f"user:{i}") for i in range(64)])
                except StoreTimeout:
                    late += 1
                os.kill(program.pid, signal.SIGCONT)
                if late:
                    break
                await asyncio.sleep(0.0005)
            ticking.cancel()
            ticks.assert_free()
            # The lock of one that dies is taken over.
            os.kill(program.pid, signal.SIGSTOP)
            program.kill()
            await asyncio.to_thread(program.wait)
            assert all(await asyncio.gather(*[limiter.hit(f"user:{i}") for i in range(64)]))

        try:
            assert program.stdout.readline() == b"ready\n"
            asyncio.run(main())
        finally:
            program.kill()
            program.communicate()


class TestConnecting:
    def test_a_name_that_is_looked_up_for_long_blocks_no_loop(self):
        limiter = AsyncLimiter(
            AMPLE, name="x", store=RedisStore("redis://no.such.host.invalid/0", timeout=2.0)
        )

        async def main():
            ticks = Ticks()
            ticking = asyncio.create_task(ticks.run())
            with pytest.raises(StoreError):
                await limiter.hit("a")
            ticking.cancel()
            ticks.assert_free()

        asyncio.run(main())

    def test_reading_all_cas_of_the_system_blocks_no_loop(self, tls_server):
        """The server's certificate is of none of them."""
        limiter = AsyncLimiter(AMPLE, name="x", store=RedisStore(tls_server.tls_url(), timeout=PATIENCE))

        async def main():
            ticks = Ticks()
            ticking = asyncio.create_task(ticks.run())
            await asyncio.sleep(0.01)
            with pytest.raises(StoreError, match="not trusted"):
                await limiter.hit("a")
            ticking.cancel()
            ticks.assert_free()

        asyncio.run(main())

    def test_a_call_ends_at_its_timeout_while_the_loop_is_busy(self, own, prefix):
        server, _ = own
        limiter = AsyncLimiter(
            AMPLE, name="x", store=RedisStore(server.tcp_url(), timeout=0.2, prefix=prefix)
        )

        async def main():
            await limiter.hit("a")
            task = asyncio.create_task(limiter.hit("a"))
            await asyncio.sleep(0)
            time.sleep(0.4)  # what an app may do
            assert await task, "the answer was there in time, though nobody looked"

        asyncio.run(main())


@pytest.mark.check
@pytest.mark.parametrize("identifiers", [("a",), ("a", "b")])
def test_a_crowd_of_tasks_that_wait_blocks_no_loop(identifiers):
    limiter = AsyncLimiter(TokenBucket(1, per=0.01))

    async def main():
        tasks = []
        for _ in range(80):
            tasks += [asyncio.create_task(limiter.acquire(*identifiers, timeout=300)) for _ in range(100)]
            await asyncio.sleep(0)
        ticks = Ticks()
        ticking = asyncio.create_task(ticks.run())
        before = sum(each.done() for each in tasks)
        await asyncio.sleep(1)
        admitted = sum(each.done() for each in tasks) - before
        ticking.cancel()
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert 10 <= admitted <= 1000
        ticks.assert_free()

    asyncio.run(main())


def test_importing_the_package_loads_no_asyncio():
    assert output_of("import sys, overlimit; print('asyncio' in sys.modules)").strip() == "False"


@pytest.mark.parametrize("number", [1, 2, 20])
def test_the_time_for_which_an_app_blocks_the_loop_counts_against_no_timeout(own, prefix, number):
    server, _ = own
    store = RedisStore(server.tcp_url(), timeout=0.1, prefix=prefix)
    limiter = AsyncLimiter(AMPLE, name="x", store=store)

    async def main():
        for connected in (False, True):
            tasks = [asyncio.create_task(limiter.hit(f"{connected}")) for _ in range(number)]
            await asyncio.sleep(0)
            time.sleep(0.3)  # what an app may do
            assert all(await asyncio.gather(*tasks))
            assert (await limiter.peek(f"{connected}", cost=0)).remaining == 1_000_000 - number

    asyncio.run(main())


def test_a_server_that_is_silent_meanwhile_is_given_up_all_the_same(own, prefix):
    server, _ = own
    store = RedisStore(server.tcp_url(), timeout=0.2, prefix=prefix)
    limiter = AsyncLimiter(AMPLE, name="x", store=store)

    async def main():
        await limiter.hit("a")
        server.pause()
        began = time.monotonic()
        task = asyncio.create_task(limiter.hit("a"))
        await asyncio.sleep(0)
        time.sleep(0.5)
        with pytest.raises(StoreTimeout):
            await task
        assert 0.5 <= time.monotonic() - began < 3.0
        server.resume()

    asyncio.run(main())


@pytest.mark.check
def test_more_calls_than_a_connection_takes_wait_for_room(own):
    _, limiter = own

    async def main():
        decisions = await asyncio.gather(*[limiter.hit("a") for _ in range(9000)])
        assert all(decisions)
        assert (await limiter.peek("a", cost=0)).remaining == 991_000

    asyncio.run(main())
