"""A server of our own for a web app, as a process that listens on a free port."""

from __future__ import annotations

import http.client
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from overlimit import SharedMemoryStore

from .patience import PATIENCE, eventually
from .ports import free_port
from .redis_server import RedisServer


class WebServer:
    """Runs ``python -m`` with a command in ``directory``, in which ``{port}`` is the port to listen on.

    Once built, ``health`` answers with 200. What the app and its workers say is in ``log``.
    """

    def __init__(
        self, command: str, directory: Path, *, health: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.port = free_port()
        self.log = log
        self._health = health
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command.format(port=self.port).split()],
                cwd=directory,
                env={"PATH": "", "PYTHONPATH": str(directory), **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(self._answers, within=3 * PATIENCE)
        except BaseException:
            self.stop()
            raise

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(
                f"{type(self).__name__} ended with status {self._process.returncode}: {self.log.read_text()}"
            )
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            try:
                connection.request("GET", self._health)
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False

    @property
    def pid(self) -> int:
        """The process that starts the workers."""
        return self._process.pid

    def stop(self) -> None:
        """End it and its workers; harmless when it has ended already."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


ASGI_SERVERS = {
    "uvicorn": "uvicorn {app} --port {{port}} --workers {workers} --timeout-graceful-shutdown 2",
    "daphne": "daphne {app} -b 127.0.0.1 -p {{port}}",
    "hypercorn": "hypercorn {app} --bind 127.0.0.1:{{port}} --workers {workers} --graceful-timeout 2",
    "gunicorn": (
        "gunicorn {app} --bind 127.0.0.1:{{port}} --workers {workers} --graceful-timeout 2"
        " --worker-class uvicorn_worker.UvicornWorker"
    ),
}
"""Servers of ASGI, and how they are started."""


class AsgiServer(WebServer):
    """A server of `ASGI_SERVERS`; ``app`` is as on its command line, found in ``directory``."""

    def __init__(
        self,
        kind: str,
        app: str,
        directory: Path,
        *,
        environment: Mapping[str, str],
        health: str = "/health",
        workers: int = 2,
        log: Path | None = None,
    ) -> None:
        command = ASGI_SERVERS[kind].format(app=app, workers=workers)
        log = log or directory / f"{kind}.log"
        super().__init__(command, directory, health=health, log=log, environment=environment)


@contextmanager
def served_together(kind: str, app: str, directory: Path, redis: RedisServer | None) -> Iterator[AsgiServer]:
    """Serve an app by two processes, which find in OVERLIMIT_STORE what they share: that Redis, or memory."""
    name = f"test-{secrets.token_hex(8)}"
    url = f"shm://{name}" if redis is None else f"{redis.unix_url()}&timeout=10"
    environment = {"OVERLIMIT_STORE": url, "OVERLIMIT_PREFIX": name}
    server = AsgiServer(kind, app, directory, environment=environment)
    try:
        yield server
    finally:
        server.stop()
        if redis is None:
            SharedMemoryStore(name).unlink()
