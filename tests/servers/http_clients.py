"""Clients of an HTTP server: threads, each with a connection of its own that it keeps."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .patience import PATIENCE


class Answer(NamedTuple):
    """What came back, and after how many seconds."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Clients:
    """Eight of them; what one method asks for is shared among them."""

    THREADS = 8

    def __init__(self, port: int) -> None:
        self._port = port
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(self.THREADS)

    def ask(self, path: str, **options: Any) -> Answer:
        """Send one request from this thread."""
        return self._send(path, **options)

    def ask_often(self, path: str, times: int, **options: Any) -> list[Answer]:
        """Send so many requests from all threads at once."""
        return list(self._pool.map(lambda _: self._send(path, **options), range(times)))

    def statuses(self, path: str, times: int, **options: Any) -> Counter[int]:
        """Return how often each status came back."""
        return Counter(answer.status for answer in self.ask_often(path, times, **options))

    def _send(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        began = time.monotonic()
        connection = self._connection()
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read(), time.monotonic() - began)

    def _connection(self) -> http.client.HTTPConnection:
        # gunicorn ends a connection that was idle for two seconds.
        now = time.monotonic()
        if now - getattr(self._own, "used", 0.0) > 1.0:
            self._own.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self._own.used = now
        connection: http.client.HTTPConnection = self._own.connection
        return connection

    def close(self) -> None:
        self._pool.shutdown()
