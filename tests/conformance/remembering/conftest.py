"""Stores that remember, and a server that forgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from overlimit import RedisStore
from servers.patience import PATIENCE
from servers.redis_server import RedisServer


@pytest.fixture
def remembering(redis_server: RedisServer, prefix: str) -> Callable[..., RedisStore]:
    """Return a function that builds a store."""

    def build(url: str = "", **options: Any) -> RedisStore:
        options = {"timeout": PATIENCE, "prefix": prefix, "remember": 600} | options
        return RedisStore(url or redis_server.unix_url(), **options)

    return build


@pytest.fixture
def store(remembering: Callable[..., RedisStore]) -> RedisStore:
    return remembering()


@pytest.fixture
def elsewhere(redis_server: RedisServer, remembering: Callable[..., RedisStore]) -> RedisStore:
    """The same keys by another address, to which what a process knows belongs: this one knows nothing."""
    return remembering(redis_server.tcp_url())


@pytest.fixture
def forget(raw: Any, prefix: str) -> Callable[[], int]:
    """Return a function that removes all keys, as FLUSHALL does."""

    def forget() -> int:
        keys = list(raw.scan_iter(f"{prefix}*"))
        return raw.delete(*keys) if keys else 0

    return forget
