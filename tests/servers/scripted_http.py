"""An HTTP server that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple


class Scripted(NamedTuple):
    """One answer; its second part is sent when the event is set."""

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b"ok"
    rest: bytes = b""
    rest_when: threading.Event | None = None


class Asked(NamedTuple):
    """A request, and when it came, by the monotonic clock."""

    at: float
    method: str
    path: str
    body: bytes
    connection: int


class ScriptedServer(ThreadingHTTPServer):
    """Gives the ``answers`` in order, and then a 200 to each request; ``asked`` is what came, in order."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Scripted] = []
        self.asked: list[Asked] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/"

    def gaps(self) -> list[float]:
        """Return the seconds between each request and the next."""
        times = [each.at for each in self.asked]
        return [later - earlier for earlier, later in pairwise(times)]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def answer(self) -> None:
        at = time.monotonic()
        body = self._body()
        self.server.asked.append(Asked(at, self.command, self.path, body, self.client_address[1]))
        answer = self.server.answers.pop(0) if self.server.answers else Scripted()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "Transfer-Encoding" not in answer.headers:  # in which the body then is already
            self.send_header("Content-Length", str(len(answer.body) + len(answer.rest)))
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.rest_when is not None:
            answer.rest_when.wait(10)
        self.wfile.write(answer.rest)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run one in a thread."""
    with ScriptedServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
