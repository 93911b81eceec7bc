"""An HTTP server whose limit moves, as that of a service does whose other users come and go."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Phase(NamedTuple):
    """For so many seconds the server grants so many requests in a window."""

    seconds: float
    limit: int


class MovingLimit:
    """Grants what its phases say in each window of so many seconds; ``says`` makes its header fields."""

    def __init__(
        self, phases: list[Phase], window: float, says: Callable[[int, int, float], str] | None = None
    ) -> None:
        self.phases, self._window, self._says = phases, window, says
        self._granted: deque[float] = deque()
        self.began = 0.0
        self.port = 0
        self.admitted: list[float] = []
        self.refused: list[float] = []

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    def free(self, most: int) -> float:
        """Return how many requests all phases grant a client that sends so many at most in a window."""
        return sum(min(phase.limit, most) * phase.seconds / self._window for phase in self.phases)

    def limit_at(self, elapsed: float) -> int:
        for phase in self.phases:
            if elapsed < phase.seconds:
                return phase.limit
            elapsed -= phase.seconds
        return self.phases[-1].limit

    def answer(self) -> bytes:
        now = time.monotonic()
        self.began = self.began or now
        elapsed, granted = now - self.began, self._granted
        while granted and granted[0] <= now - self._window:
            granted.popleft()
        limit = self.limit_at(elapsed)
        passes = len(granted) < limit
        if passes:
            granted.append(now)
        if elapsed < self.seconds:
            (self.admitted if passes else self.refused).append(elapsed)
        reset = granted[0] + self._window - now if granted else 0.0
        fields = self._says(limit, max(0, limit - len(granted)), reset) if self._says else ""
        status = "200 OK" if passes else "429 Too Many Requests"
        return f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n{fields}\r\nok".encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.005)
                writer.write(self.answer())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@contextmanager
def running(server: MovingLimit) -> Iterator[MovingLimit]:
    """Run a server in a thread."""
    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=256))
    server.port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
