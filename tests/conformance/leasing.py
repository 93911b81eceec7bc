"""The script ``lease`` on a real server, called as its client calls it (lua/README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import calcsize, pack, unpack_from
from typing import Any

from overlimit import Penalty
from overlimit.limits import Limit
from overlimit.redis_scripts import Script, script_for

SLACK_MS = 3_600_000
NO_PATIENCE_NEEDED = 2**63 - 1
# The flags of a reply.
GRANTED, WRITTEN, FOUND, CHARGED, RESTORED = 1, 2, 8, 16, 64
LEASED = "<Bqqq"
RECORD = "<8sIqqqq"


@dataclass(frozen=True)
class Leased:
    """What was charged: how many extra units, and per limit, in the order of the script, its record."""

    extra: int
    created_at: bytes
    sizes: list[int]
    expiries: list[int]
    states: list[tuple[int, int, int]]

    @property
    def receipt(self) -> bytes:
        """What a refund needs."""
        return self.created_at + b"".join(pack("<3q", *state) for state in self.states)


class Leasing:
    """One policy for one identifier, on the server of a client of redis-py."""

    def __init__(
        self, client: Any, key: str, limits: tuple[Limit, ...], penalty: Penalty | None = None
    ) -> None:
        self.client, self.key = client, key
        self.scripts: dict[str, Script] = {
            which: script_for(limits, which, penalty=penalty) for which in ("decide", "lease", "refund")
        }

    def decide(self, now: int, cost: int, patience: int = NO_PATIENCE_NEEDED) -> bytes:
        """Return the reply of ``decide_one``."""
        return self._run("decide", pack("<4q", now, SLACK_MS, patience, cost))

    def ask(self, now: int, cost: int, extra: int, life: int, patience: int = NO_PATIENCE_NEEDED) -> bytes:
        """Return the reply of ``lease``."""
        return self._run("lease", pack("<6q", now, SLACK_MS, patience, cost, extra, life))

    def lease(self, now: int, cost: int, extra: int, life: int) -> Leased | None:
        """Return what was charged; None if the call was refused."""
        reply = self.ask(now, cost, extra, life)
        if reply[0] & FOUND:
            return None
        flags, at, granted, _ = unpack_from(LEASED, reply)
        assert (flags, at) == (GRANTED + CHARGED, now)
        place = calcsize(LEASED)
        records = [unpack_from(RECORD, reply, at) for at in range(place, len(reply), calcsize(RECORD))]
        return Leased(
            granted,
            reply[place - 8 : place],
            [size for _, size, _, _, _, _ in records],
            [expiry for _, _, expiry, _, _, _ in records],
            [tuple(state) for _, _, _, *state in records],
        )

    def give_back(self, now: int, leased: Leased, cost: int) -> None:
        """Refund so many of the units."""
        script = self.scripts["refund"]
        (whole,) = script.arguments[:1]
        head = pack("<q", now) + whole[8:18] + pack("<q", cost)
        self.client.evalsha(self._loaded(script), 1, self.key, head + whole[26:], leased.receipt)

    def _run(self, which: str, head: bytes) -> bytes:
        script = self.scripts[which]
        arguments = head + script.arguments[0][len(head) :]
        reply: bytes = self.client.evalsha(self._loaded(script), 1, self.key, arguments)
        return reply

    def _loaded(self, script: Script) -> str:
        sha1: str = self.client.script_load(script.text)
        return sha1
