"""What the tests of asyncio share: limiters on every store, a proxy, and where to cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest

import memory_unless_marked
from overlimit import Store
from overlimit.aio import AsyncLimiter
from servers.fault_proxy import FaultProxy
from servers.redis_server import RedisServer

store = memory_unless_marked.store
pytest_generate_tests = memory_unless_marked.pytest_generate_tests


@pytest.fixture
def build(store: Store) -> Callable[..., AsyncLimiter]:
    """Return AsyncLimiter with the store of this test."""

    def limiter(limits: Any, **options: Any) -> AsyncLimiter:
        return AsyncLimiter(limits, **{"name": "default", "store": store, **options})

    return limiter


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[FaultProxy]:
    proxy = FaultProxy(redis_server.port)
    yield proxy
    proxy.stop()


class CancelledAt:
    """Awaits a coroutine, and has its task cancelled when it waits for the n-th time, counted from 0."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int) -> None:
        self._coroutine, self._left = coroutine, number
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        send, given = self._coroutine.send, None
        while True:
            try:
                waits_for = send(given)
            except StopIteration as end:
                return end.value
            if self._left == 0:
                self.was_cancelled = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            self._left -= 1
            try:
                given = yield waits_for
                send = self._coroutine.send
            except BaseException as error:
                send, given = self._coroutine.throw, error


async def cancelled_at_each_wait(
    call: Callable[[], Coroutine[Any, Any, Any]], check: Callable[[bool], Awaitable[None]]
) -> int:
    """Make a call again and again, cancelled when it waits for the first time, the second and so on.

    After each ``check`` is told whether it was cancelled. Return how often a call waits at most.
    """
    number = 0
    while True:
        cancelled_at = CancelledAt(call(), number)

        async def awaiting(cancelled_at: CancelledAt = cancelled_at) -> Any:
            return await cancelled_at

        task = asyncio.create_task(awaiting())
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert cancelled_at.was_cancelled == isinstance(outcome, asyncio.CancelledError), outcome
        await check(cancelled_at.was_cancelled)
        if not cancelled_at.was_cancelled:
            assert not isinstance(outcome, BaseException), outcome
            return number
        number += 1
