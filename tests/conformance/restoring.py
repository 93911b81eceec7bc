"""What processes that remember run on a real server, called as their client calls it (lua/README.md)."""

from __future__ import annotations

from struct import pack
from typing import Any

from overlimit.limits import Limit
from overlimit.redis_scripts import Script, script_for

from .leasing import FOUND, RESTORED, SLACK_MS


class Restoring:
    """Keys of one policy, on the server of a client of redis-py."""

    def __init__(self, client: Any, limits: tuple[Limit, ...]) -> None:
        self.client = client
        self.script: Script = script_for(limits, "restore")
        self.locking: Script = script_for(limits, "lock")

    def restore(self, key: str, value: bytes, now: int, told: int | None = None) -> bytes:
        """Merge a value that was told at some time, by default just now, and return what the key holds."""
        return self._run(now, key, pack("<q", now if told is None else told) + value)

    def reset(self, key: str, now: int) -> bytes:
        return self._run(now, key)

    def lock(self, key: str, now: int, length: int) -> bytes:
        """Lock for so many microseconds, or lift a lock; it is noted when."""
        arguments = pack("<3q", now, -SLACK_MS, length)
        reply: bytes = self.client.evalsha(self.client.script_load(self.locking.text), 1, key, arguments)
        return reply[9:]

    def _run(self, now: int, key: str, *told: bytes) -> bytes:
        head = pack("<qq", now, SLACK_MS)
        arguments = head + self.script.arguments[0][len(head) :]
        sha1 = self.client.script_load(self.script.text)
        reply: bytes = self.client.evalsha(sha1, 1, key, arguments, *told)
        assert reply[0] in (FOUND, FOUND + RESTORED)
        assert reply[1:9] == pack("<q", now)
        return reply[9:]
