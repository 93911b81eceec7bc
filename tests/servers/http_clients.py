"""Clients of an HTTP server, in several threads and over several connections."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from queue import Queue
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
    """Eight threads with as many connections, which are kept; whoever asks takes the next free one."""

    def __init__(self, port: int, *, at_once: int = 8) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._connections: Queue[_Connection] = Queue()
        for _ in range(at_once):
            self._connections.put(_Connection(port))

    def ask(self, path: str, **options: Any) -> Answer:
        """Send one request: ``method=``, ``headers=`` and ``body=`` besides the path."""
        connection = self._connections.get()
        try:
            return connection.ask(path, **options)
        finally:
            self._connections.put(connection)

    def ask_often(self, path: str, times: int, **options: Any) -> list[Answer]:
        """Send so many requests from all threads at once."""
        return list(self._pool.map(lambda _: self.ask(path, **options), range(times)))

    def statuses(self, path: str, times: int, **options: Any) -> Counter[int]:
        """Return how often each status came back."""
        return Counter(answer.status for answer in self.ask_often(path, times, **options))

    def close(self) -> None:
        self._pool.shutdown()
        while not self._connections.empty():
            self._connections.get().close()


def answers(port: int, path: str) -> bool:
    """Return whether a server answers a request with a 200."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False


class _Connection:
    IDLE = 1.0
    """Seconds after which a new one is opened, since servers close idle ones."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3 * PATIENCE)
        self._used = 0.0

    def ask(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        began = time.monotonic()
        if began - self._used > self.IDLE:
            self.close()
        self._connection.request(method, path, body, dict(headers or {}))
        response = self._connection.getresponse()
        content = response.read()
        self._used = time.monotonic()
        return Answer(response.status, response.headers, content, self._used - began)

    def close(self) -> None:
        self._connection.close()
