"""A redis-server, and one with TLS."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .patience import PATIENCE
from .ports import free_port

Options = Mapping[str, str | Sequence[str]]


class RedisServer:
    """A redis-server of our own, on a unix socket and a free TCP port, that keeps nothing on disk.

    ``options`` are those of redis.conf, a sequence where one takes several words; ``replica_of`` is the
    server to follow. Once built, it answers. The environment variable ``REDIS_SERVER`` names the program, by
    default ``redis-server`` of the path; any that takes the same options will do, such as ``valkey-server``.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        port: int | None = None,
        options: Options | None = None,
        replica_of: RedisServer | None = None,
    ) -> None:
        self.password = password
        self.port = port or free_port()
        self._binary = installed(os.environ.get("REDIS_SERVER", "redis-server"))
        self._options = dict(options or {}) | _following(replica_of)
        self._directory = tempfile.TemporaryDirectory(prefix="overlimit-")
        self.directory = Path(self._directory.name)
        self.socket_path = self.directory / "redis.sock"
        self._process = self._started()
        try:
            self.await_answer()
        except BaseException:
            self.stop()
            raise

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._binary, *self._arguments()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _arguments(self) -> list[str]:
        options: dict[str, str | Sequence[str]] = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "dir": str(self.directory),
            "save": "",
            "appendonly": "no",
            "repl-diskless-sync-delay": "0",
        }
        if self.password is not None:
            options |= {"requirepass": self.password, "masterauth": self.password}
        return [part for name, value in (options | self._options).items() for part in _words(name, value)]

    def await_answer(self, *answers: str) -> None:
        """Wait until the answer to a PING begins with one of ``answers``; none given: until it serves."""
        expected = answers or ("+PONG", "-NOAUTH")
        deadline = time.monotonic() + PATIENCE
        while not self.answer_to_ping().startswith(expected):
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._binary} ended at once with status {self._process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._binary} did not answer within {PATIENCE} s")
            time.sleep(0.01)

    def answer_to_ping(self) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            try:
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).decode()
            except OSError:
                return ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

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

        return redis.Redis(unix_socket_path=str(self.socket_path), db=db, password=self.password, protocol=2)

    def ask(self, *words: str | bytes | float) -> Any:
        """Send one command over a connection of its own and return the reply as it came."""
        with self.client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def scripts_run(self) -> int:
        """Return how many commands that run a script it was given."""
        stats = self.ask("INFO", "commandstats").decode()
        return sum(map(int, re.findall(r"cmdstat_(?:eval|evalsha):calls=(\d+)", stats)))

    def pause(self) -> None:
        """Stop it (SIGSTOP): the kernel still accepts connections and bytes for it, nobody answers."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL), with all it knew."""
        self._process.kill()
        self._process.wait()

    def restart(self, *, awaiting: Sequence[str] = (), **options: str) -> None:
        """Start it again after ``kill``, on the same port and socket, empty; ``options`` (with _) change."""
        self._options |= {name.replace("_", "-"): value for name, value in options.items()}
        self._process = self._started()
        self.await_answer(*awaiting)

    def stop(self) -> None:
        """End it for good; harmless when it has ended already."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
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
        tls_protocols: str = "TLSv1.2 TLSv1.3",
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
            "tls-protocols": tls_protocols,
        }
        super().__init__(password=password, options=options)

    def tls_url(self, db: int = 0, *, host: str = "localhost") -> str:
        return f"rediss://{self.credentials}{host}:{self.tls_port}/{db}"


def installed(program: str, *, package: str = "redis-server") -> str:
    """Return the path of a program; RuntimeError, naming what to install, when there is none."""
    path = shutil.which(program)
    if path is None:
        raise RuntimeError(f"{program} is not installed: these tests need a real one (Debian: {package})")
    return path


def _following(master: RedisServer | None) -> dict[str, str | Sequence[str]]:
    if master is None:
        return {}
    return {"replicaof": ("127.0.0.1", str(master.port))}


def _words(option: str, value: str | Sequence[str]) -> list[str]:
    return [f"--{option}", *([value] if isinstance(value, str) else value)]
