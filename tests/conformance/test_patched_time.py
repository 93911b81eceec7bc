"""By ``clock=time.time`` and in ``python_time`` it is called as it is found, so patches are heard."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import time_machine
from freezegun import freeze_time

from overlimit import FixedWindow, Limiter, MemoryStore
from overlimit.aio import AsyncLimiter
from overlimit.testing import manual_time, python_time
from overlimit.waiting import wait_queues
from servers.patience import PATIENCE, eventually

FROZEN = 1_893_456_000  # 2030-01-01
REAL_MONOTONIC = time.monotonic


def frozen_by_freezegun(at):
    return freeze_time(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)))


def frozen_by_time_machine(at):
    return time_machine.travel(at, tick=False)


def frozen_by_mock(at):
    return mock.patch("time.time", return_value=float(at))


@pytest.fixture(params=[frozen_by_freezegun, frozen_by_time_machine, frozen_by_mock])
def frozen(request):
    return request.param


@pytest.fixture(params=["clock", "python_time"])
def limiter_on(request):
    """Return what makes a limiter that goes by ``time.time``, because of its clock or as all others do."""

    def limiter(store, limits=None, name="default"):
        limits = limits or FixedWindow(1, 3600)
        return Limiter(limits, name=name, store=store, **({"clock": time.time} if by_clock else {}))

    by_clock = request.param == "clock"
    with contextlib.nullcontext() if by_clock else python_time():
        yield limiter


def test_a_limiter_made_before_hears_it(limiter_on, store, frozen):
    limiter = limiter_on(store)
    assert abs(limiter.hit("real").time - time.time()) < PATIENCE
    with frozen(FROZEN):
        assert [limiter.hit("a").allowed for _ in range(2)] == [True, False]
        assert limiter.peek("a").time == limiter.hit_many(["b"])[0].time == FROZEN
    with frozen(FROZEN + 3600):
        assert limiter.hit("a")
    assert abs(limiter.hit("again").time - time.time()) < PATIENCE


def test_a_limiter_made_meanwhile_hears_when_it_is_over(limiter_on, store, frozen):
    with frozen(FROZEN):
        limiter = limiter_on(store)
        assert limiter.hit("a").time == FROZEN
    assert abs(limiter.hit("b").time - time.time()) < PATIENCE


def test_waiting_hears_it_too(limiter_on, frozen):
    limiter = limiter_on(MemoryStore())
    with frozen(FROZEN):
        limiter.hit("a")
        assert not limiter.acquire("a", timeout=3599)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(limiter.acquire, "a", timeout=3600)
            eventually(lambda: wait_queues().by_family)
            time_module = time  # patched as everybody sees it
            with frozen(FROZEN + 3600):
                assert waiting.result(PATIENCE).time == FROZEN + 3600
            assert time_module.time() == FROZEN


def test_real_time_leaves_counts_in_memory_that_were_made_at_a_patched_time():
    store = MemoryStore()
    patched = Limiter("1/hour", name="patched", store=store, clock=time.time)
    real = Limiter("9/hour", name="real", store=store)
    with frozen_by_mock(1_000_000_000):
        patched.hit("a")
        for number in range(1000):
            real.hit(f"user:{number}")  # sweeps
        assert not patched.hit("a")


def test_the_server_keeps_a_minute_longer_what_real_time_has_written(
    redis_server, redis_store, prefix, limiter_on, frozen
):
    limiter = limiter_on(redis_store)
    limiter.hit("a")
    with frozen(FROZEN):
        limiter.hit("b")
    times_left = sorted(redis_server.client().pttl(key) for key in redis_server.client().keys(f"{prefix}*"))
    assert 3_600_000 < times_left[0] <= 3_660_001
    assert 7_100_000 < times_left[1] <= 7_200_001


class TestPythonTime:
    """What holds of the block itself."""

    def test_ends_with_its_block_or_function(self, frozen):
        limiter = Limiter("9/hour")

        @python_time()
        def time_of_a_hit():
            return limiter.hit("a").time

        with frozen(FROZEN):
            with contextlib.suppress(KeyError), python_time():
                assert limiter.hit("a").time == FROZEN
                raise KeyError
            assert limiter.hit("a").time < FROZEN
            assert time_of_a_hit() == FROZEN
            assert limiter.hit("a").time < FROZEN

    def test_of_blocks_within_one_another_the_inner_one_is_followed(self):
        limiter = Limiter("9/hour")
        with frozen_by_mock(FROZEN), manual_time(100):
            with python_time():
                with manual_time(200):
                    assert limiter.hit("a").time == 200
                assert limiter.hit("a").time == FROZEN
            assert limiter.hit("a").time == 100

    def test_a_task_waits_by_it(self, frozen):
        async def main():
            limiter = AsyncLimiter(FixedWindow(1, 3600))
            await limiter.hit("a")
            waiting = asyncio.ensure_future(limiter.acquire("a", timeout=3600))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            with frozen(FROZEN + 3600):
                return (await waiting).time

        loop = asyncio.new_event_loop()
        loop.time = loop.time if frozen is not frozen_by_freezegun else REAL_MONOTONIC
        with contextlib.closing(loop), python_time(), frozen(FROZEN):
            assert loop.run_until_complete(main()) == FROZEN + 3600

    def test_who_still_waits_afterwards_has_as_much_time_left_as_before(self):
        limiter = Limiter(FixedWindow(1, 0.4))
        with ThreadPoolExecutor(1) as pool:
            with python_time(), frozen_by_mock(FROZEN):
                limiter.hit("a")  # which stands until 2030
                waiting = pool.submit(limiter.acquire, "a", timeout=0.5)
                eventually(lambda: wait_queues().by_family)
            ended = time.monotonic()
            assert not waiting.result(PATIENCE)
            assert 0.3 <= time.monotonic() - ended < PATIENCE

    def test_begins_at_an_instant_and_ends_whatever_has_become_of_time_time(self):
        limiter = Limiter("9/hour")
        with mock.patch("time.time", return_value=-1), pytest.raises(ValueError, match="1970"), python_time():
            raise AssertionError
        with (
            mock.patch("time.time", side_effect=[FROZEN] * 4),
            python_time(),
            contextlib.suppress(StopIteration),
        ):
            while True:
                limiter.hit("a")
        assert abs(limiter.hit("a").time - time.time()) < PATIENCE
        assert limiter.acquire("a")

    def test_takes_no_function_without_parentheses(self):
        with pytest.raises(TypeError, match=r"write @python_time\(\)"):
            python_time(len)
