"""The servers of a store on Redis, asked what no limiter asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from overlimit import _core
from overlimit.command_line.operating.places import Place

Command: TypeAlias = tuple[str | bytes, ...]

_TIMEOUT = 2.0
"""For how many seconds an answer is awaited, unless the URL has a longer timeout: nobody waits for a walk."""


@dataclass(frozen=True)
class Server:
    """A server that has keys of its own. It may be down."""

    raw: _core.RawServer

    @property
    def name(self) -> str:
        """Its host and port, or those of the sentinels that name it."""
        return self.raw.name

    def answers(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands at once, and return the replies as they come; an error is a StoreError."""
        return self.raw.ask(commands)

    def answer(self, *words: str | bytes) -> Any:
        """Send a command, and return the reply, which may be an error."""
        return self.raw.ask([words])[0]

    def ask(self, *words: str | bytes) -> Any:
        """Send a command, and return the reply; raise it if it is an error."""
        answer = self.answer(*words)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pages(self, pattern: str, size: int) -> Iterator[list[bytes]]:
        """Walk over the keys that match, in pages that the server looks for among about so many keys each."""
        cursor = b"0"
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", str(size))
            yield keys
            if cursor == b"0":
                return

    @property
    def is_node_of_cluster(self) -> bool:
        """Whether it is one, as HELLO says, which every user may ask."""
        told = self.ask("HELLO")
        return told[told.index(b"mode") + 1] == b"cluster" if b"mode" in told else False

    def now(self) -> int:
        """Return the server's time in microseconds."""
        seconds, microseconds = map(int, self.ask("TIME"))
        return seconds * 1_000_000 + microseconds


def servers_of(place: Place, key: bytes = b"") -> list[Server]:
    """Return the server of a store, or each master of its cluster; with a key, the one that has it.

    Only a cluster is asked for that. Raises StoreError.
    """
    timeout = max(_TIMEOUT, place.redis._shown["timeout"])
    return [Server(each) for each in _core.raw_servers(place.redis._location, round(timeout * 1e6), key)]
