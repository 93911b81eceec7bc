"""Stores on the same keys of one server, with leases and always asked for; and what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from overlimit import RedisStore
from servers.patience import PATIENCE
from servers.redis_server import RedisServer


@pytest.fixture
def leasing_for(redis_server: RedisServer, prefix: str) -> Callable[..., RedisStore]:
    """Return a function that builds a store: ``leasing_for(0.5, max_stale=0)``."""

    def build(lease: float, **options: Any) -> RedisStore:
        return RedisStore(
            **{
                "url": redis_server.unix_url(),
                "timeout": PATIENCE,
                "prefix": prefix,
                "lease": lease,
                **options,
            }
        )

    return build


@pytest.fixture
def leasing(leasing_for: Callable[..., RedisStore]) -> RedisStore:
    """Leases that last longer than any test."""
    return leasing_for(10)


@pytest.fixture
def brief(leasing_for: Callable[..., RedisStore]) -> RedisStore:
    """Leases that end soon."""
    return leasing_for(0.2)


@pytest.fixture
def strict(redis_server: RedisServer, prefix: str) -> RedisStore:
    """The same keys, always asked for."""
    return RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix)


@pytest.fixture
def raw(redis_server: RedisServer) -> Iterator[Any]:
    """A client of redis-py."""
    with closing(redis_server.client()) as client:
        yield client


@pytest.fixture
def key(prefix: str) -> str:
    """The key of identifier "a" in the policy "default"."""
    return f"{prefix}1:default:a"
