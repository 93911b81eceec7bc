"""Ports that a server may have to itself, also after it was killed and started again."""

from __future__ import annotations

import fcntl
import itertools
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Below the ports that the kernel hands out to clients: a connect() to a server that is down can then neither
# meet itself nor find its port taken. Redis Cluster's bus takes the port 10000 above.
_PORTS = range(10_000, 20_000)
_BUS = 10_000
_SHARE = 400


def _ports_of_this_process() -> Iterator[int]:
    """Yield in turn, without an end, ports that no other process yields, of this run of the tests or another.

    No two processes can then find the same port free at the same time, and none gives away the port of a
    server that is down for a while.
    """
    for first in range(_PORTS.start, _PORTS.stop, _SHARE):
        with suppress(OSError), _lock(first).open("a") as lock:  # of another process, or another user's
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield from itertools.cycle(range(first, first + _SHARE))
    raise RuntimeError("too many processes run tests with servers here: they have taken all ports")


def _lock(first: int) -> Path:
    return Path(tempfile.gettempdir(), f"overlimit-test-ports-{first}")


_ports = _ports_of_this_process()


def free_port() -> int:
    """Return a port that nobody listens on, and neither 10000 above it."""
    return next(port for port in _ports if _is_free(port) and _is_free(port + _BUS))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
