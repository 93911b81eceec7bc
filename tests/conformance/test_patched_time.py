"""``clock=time.time`` is called as it is found at each call, so whoever patches it is heard."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import time_machine
from freezegun import freeze_time

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, hit_all
from servers.patience import PATIENCE

FROZEN = 1_893_456_000  # 2030-01-01


def frozen_by_freezegun(at):
    return freeze_time(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)))


def frozen_by_time_machine(at):
    return time_machine.travel(at, tick=False)


def frozen_by_mock(at):
    return mock.patch("time.time", return_value=float(at))


@pytest.fixture(params=[frozen_by_freezegun, frozen_by_time_machine, frozen_by_mock])
def frozen(request):
    return request.param


def limiter_on(store):
    return Limiter(FixedWindow(1, 3600), name="default", store=store, clock=time.time)


def test_a_limiter_made_before_hears_it(store, frozen):
    limiter = limiter_on(store)
    assert abs(limiter.hit("real").time - time.time()) < PATIENCE
    with frozen(FROZEN):
        assert [limiter.hit("a").allowed for _ in range(2)] == [True, False]
        assert limiter.peek("a").time == limiter.hit_many(["b"])[0].time == FROZEN
    with frozen(FROZEN + 3600):
        assert limiter.hit("a")
    assert abs(limiter.hit("again").time - time.time()) < PATIENCE


def test_a_limiter_made_meanwhile_hears_when_it_is_over(store, frozen):
    with frozen(FROZEN):
        limiter = limiter_on(store)
        assert limiter.hit("a").time == FROZEN
    assert abs(limiter.hit("b").time - time.time()) < PATIENCE


def test_limiters_made_before_and_meanwhile_have_one_clock(frozen):
    store = MemoryStore()
    before = Limiter("1/hour", name="before", store=store, clock=time.time)
    with frozen(FROZEN):
        meanwhile = Limiter("1/hour", name="meanwhile", store=store, clock=time.time)
        assert hit_all([(before, "a"), (meanwhile, "a")]).time == FROZEN


def test_waiting_hears_it_too(frozen):
    limiter = limiter_on(MemoryStore())
    with frozen(FROZEN):
        limiter.hit("a")
        assert not limiter.acquire("a", timeout=3599)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(limiter.acquire, "a", timeout=3600)
            time_module = time  # patched as everybody sees it
            with frozen(FROZEN + 3600):
                assert waiting.result(PATIENCE).time == FROZEN + 3600
            assert time_module.time() == FROZEN


def test_waiting_by_the_clock_of_the_store_is_not_stopped(frozen):
    limiter = Limiter(FixedWindow(1, 0.2), store=MemoryStore())
    with frozen(FROZEN):
        limiter.hit("a")
        assert limiter.acquire("a", timeout=PATIENCE)


def test_real_time_leaves_counts_in_memory_that_were_made_at_a_patched_time():
    store = MemoryStore()
    patched, real = limiter_on(store), Limiter("9/hour", name="real", store=store)
    with frozen_by_mock(1_000_000_000):
        patched.hit("a")
        for number in range(1000):
            real.hit(f"user:{number}")  # sweeps
        assert not patched.hit("a")


def test_a_patched_time_leaves_counts_in_memory_that_were_made_at_the_real_one():
    store = MemoryStore()
    patched, real = limiter_on(store), Limiter(FixedWindow(1, 3600), name="real", store=store)
    real.hit("a")
    with frozen_by_mock(FROZEN):
        for number in range(1000):
            patched.hit(f"user:{number}")  # sweeps
    assert not real.hit("a")


def test_what_it_returns_is_checked():
    limiter = limiter_on(MemoryStore())
    with mock.patch("time.time", return_value="noon"), pytest.raises(TypeError, match="clock returns"):
        limiter.hit("a")
    with mock.patch("time.time", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        limiter.hit("a")


def test_the_server_keeps_a_minute_longer_what_real_time_has_written(
    redis_server, redis_store, prefix, frozen
):
    limiter = limiter_on(redis_store)
    limiter.hit("a")
    with frozen(FROZEN):
        limiter.hit("b")
    times_left = sorted(redis_server.client().pttl(key) for key in redis_server.client().keys(f"{prefix}*"))
    assert 3_600_000 < times_left[0] <= 3_660_001
    assert 7_100_000 < times_left[1] <= 7_200_001


class WithAttribute:
    """A clock object whose ``now`` is data: a function that it was given."""

    def __init__(self, now):
        self.now = now


def test_a_clock_may_have_its_function_as_data(store):
    clock = ManualClock(FROZEN)
    limiter = Limiter(FixedWindow(1, 60), name="default", store=store, clock=WithAttribute(clock.now))
    assert [limiter.hit("a").time, limiter.hit("a").allowed] == [FROZEN, False]
    clock.advance(60)
    assert limiter.acquire("a", timeout=0).time == FROZEN + 60
