"""Fixtures for every fault: a server, a proxy before it, limiters on either, and what the server counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import event_loops
from event_loops import AnyLimiter
from overlimit import FixedWindow, RedisStore
from servers.fault_proxy import FaultProxy
from servers.patience import PATIENCE
from servers.redis_server import RedisServer

from .ledger import Ledger

pytest_generate_tests = event_loops.pytest_generate_tests

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
def counted(server: RedisServer, limiter_at: Callable[..., Any]) -> Callable[[str], int]:
    """Return a function that tells how many of ``AMPLE`` the server has charged an identifier."""
    return counted_at(limiter_at, server.unix_url())


def counted_at(limiter_at: Callable[..., Any], url: str) -> Callable[[str], int]:
    limiter = limiter_at(url)
    return lambda identifier: AMPLE.quota - limiter.peek(identifier, cost=0).remaining
