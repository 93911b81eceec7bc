"""Servers of a run's own, and shared memory of its own."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

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
def postgresql_server() -> Iterator[str]:
    """Run a PostgreSQL on a unix socket alone, that waits for no disk; yield the URL of a database."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        how: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if os.geteuid() == 0:  # as whom it refuses to run
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            how |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        found = [shutil.which("initdb") or "", *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))]
        programs = os.path.dirname(os.path.realpath(found[-1]))
        data = os.path.join(folder, "data")
        options = ["--auth=trust", "--no-sync", "--username=overlimit", "-D", data]
        subprocess.run([os.path.join(programs, "initdb"), *options], check=True, **how)
        settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder, "-D", data]
        server = subprocess.Popen([os.path.join(programs, "postgres"), *settings], **how)
        try:
            url = f"postgresql://overlimit@/postgres?host={folder}"
            await_answer(url)
            yield url
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def await_answer(url: str) -> None:
    import psycopg

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def shared_memory() -> Iterator[SharedMemoryStore]:
    store = SharedMemoryStore(f"benchmark-{os.getpid()}")
    try:
        yield store
    finally:
        store.unlink()
