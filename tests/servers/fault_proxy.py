"""A proxy in a process of its own that treats the bytes between a client and a server badly, on command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .ports import free_port

REQUESTS, REPLIES = "requests", "replies"

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FaultProxy:
    """A proxy on a free TCP port and a unix socket, before a server on a TCP port of this machine.

    Every method returns once the proxy does as told. Faults add up until ``restore``.
    """

    def __init__(self, upstream_port: int) -> None:
        self.port = free_port()
        self._directory = tempfile.TemporaryDirectory(prefix="overlimit-proxy-")
        self.socket_path = Path(self._directory.name) / "proxy.sock"
        places = [str(upstream_port), str(self.port), str(self.socket_path)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.fault_proxy", *places],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self._answer()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket_path}?db=0"

    def delay(self, *, requests: float = 0.0, replies: float = 0.0) -> None:
        """Deliver every byte so many seconds later."""
        self._tell("delay", requests=requests, replies=replies)

    def hold_replies(self) -> None:
        """Be a black hole for replies; ``restore`` delivers them late."""
        self._tell("hold", directions=[REPLIES])

    def hold_all(self) -> None:
        """Be a black hole in both directions, also for those who connect now; ``restore`` delivers late."""
        self._tell("hold", directions=[REQUESTS, REPLIES])

    def cut_replies_after(self, length: int) -> None:
        """Close each connection once so many bytes of replies went through from now on."""
        self._tell("cut", length=length)

    def dribble(self) -> None:
        """Deliver one byte at a time, each way, each in a packet of its own."""
        self._tell("dribble")

    def reset(self) -> None:
        """End every connection there is by a RST."""
        self._tell("reset")

    def refuse(self) -> None:
        """End every connection and refuse new ones."""
        self._tell("refuse")

    def restore(self) -> None:
        """End all faults; what was held is delivered now, in order."""
        self._tell("restore")

    def connections(self) -> int:
        """Return how many connections were accepted so far."""
        return int(self._tell("count")["accepted"])

    def stop(self) -> None:
        """End it; harmless when it has ended already."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._directory.cleanup()

    def _tell(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise RuntimeError(f"the fault proxy failed: {answer['error']}")
        return answer


@dataclass
class _Faults:
    """What is done to the bytes now, the same for every connection."""

    delay: dict[str, float] = field(default_factory=lambda: {REQUESTS: 0.0, REPLIES: 0.0})
    flows: dict[str, asyncio.Event] = field(default_factory=lambda: {REQUESTS: _set(), REPLIES: _set()})
    reply_bytes: int | None = None
    dribbles: bool = False

    def end(self) -> None:
        self.delay.update({REQUESTS: 0.0, REPLIES: 0.0})
        self.reply_bytes, self.dribbles = None, False
        for flow in self.flows.values():
            flow.set()


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class _Pipe:
    """One direction of one connection."""

    def __init__(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: str, faults: _Faults
    ) -> None:
        self._source, self._sink = source, sink
        self._direction, self._faults = direction, faults
        self._held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self.budget: int | None = faults.reply_bytes if direction == REPLIES else None

    async def run(self) -> None:
        """Deliver until the end of the source or of the budget; OSError when either side is gone."""
        reading = asyncio.ensure_future(self._read())
        try:
            await self._deliver()
        finally:
            reading.cancel()

    async def _read(self) -> None:
        data = b"before the first"
        while data:
            try:
                data = await self._source.read(65536)
            except OSError:
                data = b""
            self._held.put_nowait((asyncio.get_running_loop().time(), data))

    async def _deliver(self) -> None:
        while True:
            came, data = await self._held.get()
            await self._wait(came)
            if not data or self.budget == 0:
                return
            # What is cut off is lost, so that the connection must end, even if faults end meanwhile.
            budget = self.budget
            is_cut = budget is not None and budget <= len(data)
            await self._write(data[:budget] if is_cut else data)
            if is_cut:
                return
            if self.budget is not None and self.budget == budget:
                self.budget -= len(data)

    async def _wait(self, came: float) -> None:
        due = came + self._faults.delay[self._direction]
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await self._faults.flows[self._direction].wait()

    async def _write(self, data: bytes) -> None:
        pieces = [data[i : i + 1] for i in range(len(data))] if self._faults.dribbles else [data]
        for piece in pieces:
            self._sink.write(piece)
            await self._sink.drain()
            # Without a pause the kernel may still put bytes together that the receiver hasn't read.
            await asyncio.sleep(0.0002 if self._faults.dribbles else 0)


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, client: _Streams, server: _Streams, faults: _Faults) -> None:
        self._writers = (client[1], server[1])
        self._requests = _Pipe(client[0], server[1], REQUESTS, faults)
        self.replies = _Pipe(server[0], client[1], REPLIES, faults)

    async def run(self) -> None:
        """Deliver both ways until either side ends."""
        try:
            await _first_of(self._requests.run(), self.replies.run())
        finally:
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        for writer in self._writers:
            connection = writer.get_extra_info("socket")
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class _Proxy:
    """The links there are, the listeners, and the commands."""

    def __init__(self, upstream_port: int, port: int, path: str) -> None:
        self._upstream_port, self._port, self._path = upstream_port, port, path
        self._faults = _Faults()
        self._links: set[_Link] = set()
        self._listeners: list[asyncio.Server] = []
        self._accepted = 0

    async def listen(self) -> None:
        Path(self._path).unlink(missing_ok=True)
        self._listeners = [
            await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=512),
            await asyncio.start_unix_server(self._serve, self._path, backlog=512),
        ]

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._accepted += 1
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            to_client.close()
            return
        link = _Link((from_client, to_client), (from_server, to_server), self._faults)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def obey(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        commands: dict[str, Callable[..., Awaitable[dict[str, Any] | None]]] = {
            "delay": self._delay,
            "hold": self._hold,
            "cut": self._cut,
            "dribble": self._dribble,
            "reset": self._reset,
            "refuse": self._refuse,
            "restore": self._restore,
            "count": self._count,
        }
        return await commands[command](**arguments) or {}

    async def _delay(self, **seconds: float) -> None:
        self._faults.delay.update(seconds)

    async def _hold(self, directions: list[str]) -> None:
        for direction in directions:
            self._faults.flows[direction].clear()

    async def _cut(self, length: int) -> None:
        self._faults.reply_bytes = length
        for link in self._links:
            link.replies.budget = length

    async def _dribble(self) -> None:
        self._faults.dribbles = True

    async def _reset(self) -> None:
        for link in list(self._links):
            link.reset()

    async def _refuse(self) -> None:
        for listener in self._listeners:
            listener.close()
        await self._reset()

    async def _restore(self) -> None:
        self._faults.end()
        for link in self._links:
            link.replies.budget = None
        if not any(listener.is_serving() for listener in self._listeners):
            await self.listen()

    async def _count(self) -> dict[str, Any]:
        return {"accepted": self._accepted}


async def _first_of(*runs: Awaitable[None]) -> None:
    """Run until the first ends, whatever became of it."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await task


async def _obey_commands(upstream_port: str, port: str, path: str) -> None:
    proxy = _Proxy(int(upstream_port), int(port), path)
    await proxy.listen()
    print("{}", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        command, arguments = json.loads(line)
        print(json.dumps(await proxy.obey(command, arguments)), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_obey_commands(*sys.argv[1:]))
