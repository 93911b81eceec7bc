"""What the smoke tests need, and servers of their own: nothing here is of the other tests (docs/testing.md).

A test says what it needs beside the package, as ``@pytest.mark.needs("redis")``. Where that is missing it is
skipped, unless the environment requires it: ``SMOKE_REQUIRES=redis,tls``, or ``all``, makes it fail instead.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 120.0
"""Seconds that a busy machine may take for what takes a moment."""


def missing_modules(*names: str) -> str:
    return ", ".join(name for name in names if find_spec(name) is None)


def redis_program() -> str:
    return os.environ.get("REDIS_SERVER", "redis-server")


def missing_redis() -> str:
    return "" if shutil.which(redis_program()) else redis_program()


def missing_tls() -> str:
    if missing_redis() or not shutil.which("openssl"):
        return missing_redis() or "openssl"
    # It names the first option that it does not know, and ends.
    asked = [redis_program(), "--tls-port", "0", "--no-such-option", "0"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return "" if "no-such-option" in told.stdout + told.stderr else f"TLS in {redis_program()}"


def missing_shared_memory() -> str:
    from overlimit import SharedMemoryStore, StoreConfigError

    try:
        SharedMemoryStore(f"smoke-{secrets.token_hex(6)}")
    except StoreConfigError as error:
        return str(error)
    return ""


NEEDS: dict[str, Callable[[], str]] = {
    "shm": missing_shared_memory,
    "redis": missing_redis,
    "tls": missing_tls,
    "flask": lambda: missing_modules("flask", "blinker"),
    "gunicorn": lambda: missing_modules("gunicorn"),
    "simulation": lambda: missing_modules("numpy", "pandas"),
    "cli": lambda: missing_modules("click", "numpy", "pandas", "pyarrow", "rich"),
}


def required() -> set[str]:
    named = set(filter(None, os.environ.get("SMOKE_REQUIRES", "").replace(" ", "").split(",")))
    unknown = named - {*NEEDS, "all"}
    if unknown:
        raise pytest.UsageError(f"SMOKE_REQUIRES: {sorted(unknown)} is none of {[*NEEDS, 'all']}")
    return set(NEEDS) if "all" in named else named


@cache
def missing(need: str) -> str:
    return NEEDS[need]()


def pytest_configure(config: pytest.Config) -> None:
    required()
    config.addinivalue_line("markers", "needs(*names): what a smoke test needs beside the package")


def pytest_report_header() -> list[str]:
    return [f"smoke: {need} is missing ({missing(need)})" for need in NEEDS if missing(need)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in (name for mark in item.iter_markers("needs") for name in mark.args):
        if missing(need):
            outcome = pytest.fail if need in required() else pytest.skip
            outcome(f"{need} needs {missing(need)}")


class RedisServer:
    """A redis-server of our own that keeps nothing on disk, on loopback and a unix socket."""

    def __init__(self, folder: Path, certificates: Path | None = None) -> None:
        self.certificate = certificates and certificates / "server.pem"
        self.socket = folder / "redis.sock"
        self.port, self.tls_port = free_ports(2)
        options = f"--bind 127.0.0.1 --port {self.port} --unixsocket {self.socket} --dir {folder}"
        if certificates:
            options += (
                f" --tls-port {self.tls_port} --tls-auth-clients no --tls-cert-file {self.certificate}"
                f" --tls-ca-cert-file {self.certificate} --tls-key-file {certificates / 'server.key'}"
            )
        command = [redis_program(), *options.split(), "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers(self) -> bool:
        assert self.process.poll() is None, "redis-server has ended"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            try:
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64) == b"+PONG\r\n"
            except OSError:
                return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on; all are taken at once, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s"
        time.sleep(0.01)


def running_redis(certificates: Path | None = None) -> Iterator[RedisServer]:
    # The path of a unix socket is short.
    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        server = RedisServer(Path(folder), certificates)
        try:
            eventually(server.answers)
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    yield from running_redis()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two certificates for localhost, ``server`` and ``other``, each its own CA."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "other"):
        options = (
            f"-x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN={name}"
            f" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
        )
        command = ["openssl", "req", *options.split()]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, check=True)
    return folder


@pytest.fixture(scope="module")
def tls_server(certificates: Path) -> Iterator[RedisServer]:
    yield from running_redis(certificates)


@pytest.fixture
def shared_memory() -> Iterator[str]:
    """Return the URL of shared memory that only this test uses."""
    from overlimit import SharedMemoryStore

    name = f"smoke-{secrets.token_hex(6)}"
    yield f"shm://{name}?timeout={PATIENCE}"
    SharedMemoryStore(name).unlink()


@pytest.fixture
def admitted_by_processes() -> Callable[..., list[int]]:
    """Return a function that has processes hit at once, and returns how often each of them was admitted."""
    return _admitted_by_processes


def _admitted_by_processes(processes: int, limits: str, store: str, *, hits: int) -> list[int]:
    command = [sys.executable, str(HERE / "hits.py"), limits, store, str(hits)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        assert [each.stdout.readline() for each in started if each.stdout] == ["ready\n"] * processes
        for each in started:
            print("go", file=each.stdin, flush=True)
        return [int(each.communicate(timeout=PATIENCE)[0]) for each in started]
    finally:
        for each in started:
            each.kill()
            each.communicate()


@pytest.fixture
def gunicorn(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Return a function that serves ``app.py`` by two workers, and returns its port."""
    servers = []

    def serve(store: str, limits: str) -> int:
        (port,) = free_ports(1)
        options = f"-m gunicorn --workers 2 --graceful-timeout 2 --bind 127.0.0.1:{port} app:app"
        # The home is where gunicorn puts a socket.
        own = {"STORE": store, "LIMITS": limits, "WORKERS": str(tmp_path), "HOME": str(tmp_path)}
        server = subprocess.Popen([sys.executable, *options.split()], cwd=HERE, env={**os.environ, **own})
        servers.append(server)
        eventually(lambda: _listens(server, port))
        return port

    yield serve
    for server in servers:
        server.terminate()
        server.wait(PATIENCE)


def _listens(server: subprocess.Popen[bytes], port: int) -> bool:
    assert server.poll() is None, "gunicorn has ended"
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def access_log(tmp_path: Path) -> Path:
    """Return a log in which one address sends 30 requests within a minute, and another 10."""
    lines = [
        f'{address} - - [02/Mar/2026:10:00:{second:02} +0000] "GET / HTTP/1.1" 200 100 "-" "smoke"\n'
        for second in range(30)
        for address in ("192.0.2.1", "192.0.2.2")
        if address == "192.0.2.1" or second < 10
    ]
    path = tmp_path / "access.log"
    path.write_text("".join(lines), encoding="utf-8")
    return path
