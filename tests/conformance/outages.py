"""Stores that fail in the ways a test can make them, and how to wait for one that comes back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from servers.redis_server import RedisServer

PATIENCE = 20.0
"""Seconds that a store may take to notice that its server is back; it takes 3 at most."""

SHORT = 0.05
"""The timeout in seconds of a store whose server is going to be silent."""

NOWHERE = "unix:///nowhere/redis.sock"
"""Where no server ever is."""


@contextmanager
def refused() -> Iterator[str]:
    """Yield a URL whose port refuses connections, and is nobody else's meanwhile."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield f"redis://127.0.0.1:{silent.getsockname()[1]}/0"


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    """Stop a server in its tracks: it takes connections and requests, and answers none until the end."""
    server.pause()
    try:
        yield
    finally:
        server.resume()


def eventually(ask: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as it should be; return it."""
    deadline = time.monotonic() + PATIENCE
    while not is_done(answer := ask()):
        if time.monotonic() > deadline:
            pytest.fail(f"still {answer!r} after {PATIENCE} s")
        time.sleep(0.02)
    return answer
