"""Fixtures for every fault: a server, a proxy before it, limiters on either, and what the server counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from event_loops import AnyLimiter, AwaitedLimiter, LoopThread
from overlimit import FixedWindow, Limiter, RedisStore
from servers.fault_proxy import FaultProxy
from servers.patience import PATIENCE
from servers.redis_server import RedisServer

from .ledger import Ledger

AMPLE = FixedWindow(1_000_000, per=86_400)


@pytest.fixture
def server(start_redis: Callable[..., RedisServer]) -> RedisServer:
    return start_redis()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    proxy = FaultProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each fault under calls of threads and under calls that an event loop awaits."""
    if "make_limiter" in metafunc.fixturenames:
        only_threads = metafunc.definition.get_closest_marker("only_threads")
        metafunc.parametrize("make_limiter", ["threads"] if only_threads else ["threads", "tasks"], indirect=True)


@pytest.fixture
def make_limiter(request: pytest.FixtureRequest) -> Iterator[Callable[..., AnyLimiter]]:
    """Return Limiter, or what calls an AsyncLimiter on an event loop, which is then never blocked for long."""
    if request.param == "threads":
        yield Limiter
        return
    loop = LoopThread()
    yield partial(AwaitedLimiter, loop)
    loop.stop()
    loop.ticks.assert_free()


@pytest.fixture
def limiter_at(prefix: str, make_limiter: Callable[..., AnyLimiter]) -> Callable[..., Any]:
    """Return a function that builds a limiter: ``limiter_at(url, timeout=0.1, limits=AMPLE, **options)``.

    ``AMPLE`` admits a million a day, so that every call that reaches the server is counted there.
    """

    def build(url: str, *, timeout: float = PATIENCE, limits: Any = AMPLE, **options: Any) -> AnyLimiter:
        store = RedisStore(url, timeout=timeout, prefix=prefix)
        return make_limiter(limits, **{"name": "default", "store": store, **options})

    return build


@pytest.fixture
def counted(server: RedisServer, limiter_at: Callable[..., Limiter]) -> Callable[[str], int]:
    """Return a function that tells how many of ``AMPLE`` the server has charged an identifier."""
    return counted_at(limiter_at, server.unix_url())


def counted_at(limiter_at: Callable[..., Limiter], url: str) -> Callable[[str], int]:
    limiter = limiter_at(url)
    return lambda identifier: AMPLE.quota - limiter.peek(identifier, cost=0).remaining
