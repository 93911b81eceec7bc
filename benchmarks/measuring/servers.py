"""A redis-server of a run's own, and shared memory of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator

from overlimit import SharedMemoryStore

PATIENCE = 20.0


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Run a redis-server that listens on a unix socket alone, whose path this is."""
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "redis.sock")
        program = os.environ.get("REDIS_SERVER", "redis-server")
        command = [program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            await_socket(server, pathlib.Path(socket))
            yield socket
        finally:
            server.terminate()
            server.wait()


def await_socket(server: subprocess.Popen[bytes], socket: pathlib.Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("redis-server did not start")
        time.sleep(0.01)


@contextlib.contextmanager
def shared_memory() -> Iterator[SharedMemoryStore]:
    store = SharedMemoryStore(f"benchmark-{os.getpid()}")
    try:
        yield store
    finally:
        store.unlink()
