"""Ports that a server may have to itself, also after it was killed and started again."""

from __future__ import annotations

import random
import socket

# Below the ports that the kernel hands out to clients: a connect() to a server that is down can then neither
# meet itself nor find its port taken. Redis Cluster's bus takes the port 10000 above.
_PORTS = range(10_000, 22_000)
_BUS = 10_000


def free_port() -> int:
    """Return a port that nobody listens on, and neither 10000 above it."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        if _is_free(port) and _is_free(port + _BUS):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
