"""Fixtures for every test: a real Redis, each store in turn, and a clock that stands still."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from overlimit import Limiter, ManualClock, MemoryStore, RedisStore

# The same examples in every run, and other ones each time in `make prove`.
settings.register_profile("tests", derandomize="PROVE" not in os.environ, database=None)
settings.load_profile("tests")

START = 1_700_000_000
"""Where the clock of a test starts, in seconds since the epoch."""

PATIENCE = 10.0
"""Seconds that a server may take to start or to stop; and the stores' timeout where time is no subject."""


class RedisServer:
    """A redis-server of our own, on a unix socket and a free TCP port, that keeps nothing on disk."""

    def __init__(
        self,
        *,
        password: str | None = None,
        port: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.password = password
        self.port = port or free_port()
        self._options = options or {}
        self._directory = tempfile.TemporaryDirectory(prefix="overlimit-")
        self.socket_path = Path(self._directory.name) / "redis.sock"
        self._process = subprocess.Popen(
            [installed_redis_server(), *self._arguments()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def _arguments(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "dir": self._directory.name,
            "save": "",
            "appendonly": "no",
        }
        if self.password is not None:
            options["requirepass"] = self.password
        options |= self._options
        return [part for option, value in options.items() for part in (f"--{option}", value)]

    def _await_answer(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None:
                pytest.fail(f"redis-server ended at once with status {self._process.returncode}")
            if time.monotonic() > deadline:
                pytest.fail(f"redis-server did not answer within {PATIENCE} s")
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            try:
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    @property
    def credentials(self) -> str:
        return "" if self.password is None else f":{self.password}@"

    def tcp_url(self, db: int = 0) -> str:
        return f"redis://{self.credentials}127.0.0.1:{self.port}/{db}"

    def unix_url(self, db: int = 0) -> str:
        return f"unix://{self.credentials}{self.socket_path}?db={db}"

    def client(self, db: int = 0) -> Any:
        """Return a redis-py client, for looking behind the store's back; the caller closes it."""
        import redis

        return redis.Redis(unix_socket_path=str(self.socket_path), db=db, password=self.password)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()


class TlsRedisServer(RedisServer):
    """A redis-server that also listens with TLS, as ``localhost`` and ``127.0.0.1``.

    ``certificate`` is one of tests/make-certificates; ``tls_auth_clients="yes"`` asks for the client's.
    """

    def __init__(
        self,
        certificates: Path,
        *,
        certificate: str = "server",
        tls_auth_clients: str = "no",
        password: str | None = None,
    ) -> None:
        self.tls_port = free_port()
        self.ca = str(certificates / "ca.pem")
        options = {
            "tls-port": str(self.tls_port),
            "tls-cert-file": str(certificates / f"{certificate}.pem"),
            "tls-key-file": str(certificates / f"{certificate}.key"),
            "tls-ca-cert-file": self.ca,
            "tls-auth-clients": tls_auth_clients,
        }
        super().__init__(password=password, options=options)

    def tls_url(self, db: int = 0, *, host: str = "localhost") -> str:
        return f"rediss://{self.credentials}{host}:{self.tls_port}/{db}"


def installed_redis_server() -> str:
    path = shutil.which("redis-server")
    if path is None:
        pytest.fail("redis-server is not installed: these tests need a real one (Debian: redis-server)")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def start_redis() -> Iterator[Callable[..., RedisServer]]:
    """Return a function that starts another server: ``start_redis(password=..., port=...)``."""
    with ExitStack() as servers:

        def start(**options: Any) -> RedisServer:
            server = RedisServer(**options)
            servers.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what tests/make-certificates makes."""
    directory = tmp_path_factory.mktemp("certificates")
    subprocess.run([Path(__file__).parent / "make-certificates", directory], check=True)
    return directory


@pytest.fixture(scope="session")
def tls_server(certificates: Path) -> Iterator[TlsRedisServer]:
    server = TlsRedisServer(certificates)
    yield server
    server.stop()


@pytest.fixture
def start_tls_redis(certificates: Path) -> Iterator[Callable[..., TlsRedisServer]]:
    """Return a function that starts another: ``start_tls_redis(certificate=..., tls_auth_clients=...)``."""
    with ExitStack() as servers:

        def start(**options: Any) -> TlsRedisServer:
            server = TlsRedisServer(certificates, **options)
            servers.callback(server.stop)
            return server

        yield start


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def redis_store(redis_server: RedisServer, prefix: str) -> RedisStore:
    return RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix)


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> MemoryStore | RedisStore:
    if request.param == "memory":
        return MemoryStore()
    store: RedisStore = request.getfixturevalue("redis_store")
    return store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=START)


@pytest.fixture
def at(clock: ManualClock) -> Callable[[float], None]:
    """Return a function that moves the clock to so many seconds after ``START``."""

    def move(seconds: float) -> None:
        clock.set(START + seconds)

    return move


@pytest.fixture
def build(store: MemoryStore | RedisStore, clock: ManualClock) -> Callable[..., Limiter]:
    """Return ``Limiter`` with the store and the clock of this test."""

    def limiter(limits: Any, **options: Any) -> Limiter:
        return Limiter(limits, **{"store": store, "clock": clock, **options})

    return limiter
