"""A throttled coroutine function or async block begins when it is its turn, and not before."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest

from overlimit import (
    Decision,
    FixedWindow,
    Limiter,
    ManualClock,
    RateLimitExceeded,
    RedisStore,
    StoreError,
)
from overlimit.aio import AsyncLimiter
from servers.patience import PATIENCE

START = 1_700_000_000


class WaitingLimiter(AsyncLimiter):
    """An AsyncLimiter whose acquire waits in a thread."""

    async def acquire(self, *identifiers, cost=1, timeout=5.0) -> Decision:
        return await asyncio.to_thread(self._limiter.acquire, *identifiers, cost=cost, timeout=timeout)


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def limiter(clock):
    return WaitingLimiter(FixedWindow(2, 10), clock=clock)


async def left(limiter, identifier="a"):
    return (await limiter.peek(identifier, cost=0)).remaining


async def served_at(clock, seconds, task):
    """Assert that a task is done when the clock has got so far, and not a microsecond earlier."""
    clock.set(START + seconds - 0.000001)
    assert (await asyncio.wait([task], timeout=0.05))[1]
    clock.set(START + seconds)
    return await asyncio.wait_for(task, PATIENCE)


def test_each_call_waits_for_its_turn_and_spends_it(limiter, clock):
    @limiter.throttle("a")
    async def fetch(page: int, *, size: int = 10) -> tuple[int, int, float]:
        """Fetch a page."""
        return page, size, clock.now()

    async def main():
        assert await fetch(1) == (1, 10, START)
        assert await fetch(2, size=5) == (2, 5, START)
        third = asyncio.ensure_future(fetch(3))
        assert await served_at(clock, 10, third) == (3, 10, START + 10)
        assert await left(limiter) == 1

    asyncio.run(main())
    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch a page.")
    assert inspect.iscoroutinefunction(fetch)


def test_a_block_can_be_entered_by_several_tasks_at_once(limiter, clock):
    turn = limiter.throttle("a")

    async def work():
        async with turn as decision:
            return decision.time

    async def main():
        assert await asyncio.gather(work(), work()) == [START, START]
        assert await served_at(clock, 10, asyncio.gather(work(), work())) == [START + 10] * 2

    asyncio.run(main())


def test_a_timeout_that_cannot_be_met_and_what_can_never_pass_raise_and_charge_nothing(limiter):
    async def main():
        with pytest.raises(RateLimitExceeded, match="never"):
            async with limiter.throttle("a", cost=3):
                raise AssertionError
        async with limiter.throttle("a", cost=2):
            pass
        with pytest.raises(RateLimitExceeded) as raised:
            await limiter.throttle("a", timeout=9.9)(asyncio.sleep)(0)
        assert raised.value.decision.retry_after == 10

    asyncio.run(main())


def test_what_it_raises_passes_and_the_charge_stays(limiter):
    async def fail():
        raise LookupError("x")

    async def main():
        with pytest.raises(LookupError, match="x"):
            await limiter.throttle("a")(fail)()
        with pytest.raises(LookupError, match="x"):
            async with limiter.throttle("a"):
                await fail()
        assert await left(limiter) == 0

    asyncio.run(main())


def test_identifiers_and_cost_may_be_functions_of_the_calls_arguments(limiter):
    class Client:
        @limiter.throttle(lambda self, name, **_: name, cost=lambda self, name, times: times)
        async def get(self, name, times):
            return name * times

    async def main():
        assert await Client().get("ada", times=2) == "adaada"
        assert [await left(limiter, name) for name in ("ada", "bob")] == [0, 2]

    asyncio.run(main())


@pytest.mark.parametrize("on_error", ["raise", "deny"])
def test_when_the_store_fails_all_in_the_line_are_told_or_wait_until_it_is_back(start_redis, on_error):
    server = start_redis()
    limiter = AsyncLimiter(
        FixedWindow(1, per=0.4),
        name="line",
        store=RedisStore(server.tcp_url(), timeout=0.2),
        on_error=on_error,
    )
    entered = []

    async def enter(number):
        async with limiter.throttle("a") as decision:
            assert decision.source == "store"
            entered.append(number)

    async def main():
        await enter(0)
        tasks = [asyncio.create_task(enter(number)) for number in range(1, 4)]
        await asyncio.sleep(0.01)
        await asyncio.to_thread(server.kill)
        if on_error == "deny":
            with pytest.raises(RateLimitExceeded) as raised:
                async with limiter.throttle("b", timeout=0.3):
                    raise AssertionError
            assert raised.value.decision.source == "error"
            assert len(entered) < 4
            await asyncio.to_thread(server.restart)
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 3 * PATIENCE)
        if on_error == "deny":
            assert (outcomes, entered) == ([None] * 3, [*range(4)])
        else:
            failed = [each for each in outcomes if each is not None]
            assert all(isinstance(each, StoreError) for each in failed)
            assert 1 <= len(failed) == 4 - len(entered)

    asyncio.run(main())


class Awaited:
    async def __call__(self):
        return 1


def test_partials_and_callables_that_are_awaited_are_throttled(limiter):
    async def double(number):
        return 2 * number

    async def main():
        assert await limiter.throttle("a")(functools.partial(double, 4))() == 8
        assert await limiter.throttle("a")(Awaited())() == 1
        assert await left(limiter) == 0

    asyncio.run(main())


def generator():
    yield 1


async def async_generator():
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (len, "Limiter.throttle, or async def"),
        (functools.partial(len, ""), "Limiter.throttle, or async def"),
        (generator, "a generator function: write async with"),
        (async_generator, "an async generator function: write async with"),
        ("fetch", "decorates a function"),
    ],
    ids=range(5),
)
def test_what_is_not_awaited_is_a_type_error_where_it_is_decorated(limiter, function, said):
    with pytest.raises(TypeError, match=said):
        limiter.throttle("a")(function)


def test_a_wrong_argument_is_an_error_before_anything_is_decorated(limiter):
    for arguments, options, error in (
        ((), {}, ValueError),
        ((5,), {}, TypeError),
        (("a",), {"timeout": -1}, ValueError),
        (("a",), {"cost": -1}, ValueError),
    ):
        with pytest.raises(error):
            limiter.throttle(*arguments, **options)
    with pytest.raises(TypeError, match="write timeout="):
        limiter.throttle("a", time_out=5)


def test_a_throttle_without_parentheses_and_the_wrong_kind_of_block_are_errors():
    limiter, plain = AsyncLimiter("1/minute"), Limiter("1/minute")

    async def fetch() -> None: ...

    for one in (limiter, plain):
        with pytest.raises(TypeError, match=r"in parentheses: @limiter\.throttle\('api\.example\.com'\)"):
            one.throttle(fetch)
    with pytest.raises(TypeError, match="write async with"), limiter.throttle("a"):
        raise AssertionError

    async def enter() -> None:
        async with plain.throttle("a"):
            raise AssertionError

    with pytest.raises(TypeError, match=r"write async with AsyncLimiter\(\.\.\.\)\.throttle"):
        asyncio.run(enter())

    assert plain.peek("a").allowed


@pytest.mark.parametrize("kind", [Limiter, AsyncLimiter])
def test_a_call_of_what_was_decorated_without_parentheses_says_what_to_write(kind):
    limiter = kind("1/minute")

    @limiter.throttle
    def double(number: int = 1, *others: int, by: int = 2) -> int:
        return by * number

    class Client:
        @limiter.throttle
        def fetch(self, page: int = 1, size: int = 50) -> None: ...

    client = Client()
    for call, given in [
        (lambda: double(3), "3"),
        (double, "no arguments"),
        (lambda: double(3, 4), "2 arguments"),
        (lambda: double(by=3), "1 argument by name"),
        (lambda: double(3, by=3), "2 arguments"),
        (lambda: double(3, function=len), "2 arguments"),
        (client.fetch, "no arguments"),
        (lambda: client.fetch(2), "2"),
        (lambda: client.fetch(2, 10), "2 arguments"),
        (lambda: client.fetch(page=2, size=10), "2 arguments"),
    ]:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == (
            "throttle decorates a function, as @limiter.throttle('api.example.com') above its def with an "
            f"identifier in parentheses, not {given}"
        )
