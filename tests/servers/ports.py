"""Ports that a server may have to itself, also after it was killed and started again."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator

# Below the ports that the kernel hands out to clients: a connect() to a server that is down can then neither
# meet itself nor find its port taken. Redis Cluster's bus takes the port 10000 above.
_PORTS = range(10_000, 20_000)
_BUS = 10_000


def _share_of_this_worker() -> Iterator[int]:
    """Yield the ports of this worker of pytest-xdist in turn, from anywhere, without an end.

    No two workers can then find the same port free at the same time, and none gives away the port of a
    server that is down for a while.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = _PORTS[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    return itertools.islice(itertools.cycle(share), random.SystemRandom().randrange(len(share)), None)


_share = _share_of_this_worker()


def free_port() -> int:
    """Return a port that nobody listens on, and neither 10000 above it."""
    return next(port for port in _share if _is_free(port) and _is_free(port + _BUS))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
