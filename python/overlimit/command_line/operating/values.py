"""What is kept under a key: records, each found by the tag of its limit (lua/README.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

LOCK_TAG = int.from_bytes(b"penalty\0", "little")
_NO_LIMITS = {LOCK_TAG, *(int.from_bytes(tag, "little") for tag in (b"reset\0\0\0", b"unlocked"))}
_INSTANT_BITS = 2**53 - 1
"""Of a time of creation; those above tell when the key was restored."""
_HEAD = 8
_RECORD = struct.Struct("<QIq")
_STATE = struct.Struct("<qqq")
_CELL = struct.Struct("<qq")


@dataclass(frozen=True)
class Record:
    """The state of one limit. Times are microseconds."""

    tag: int
    expires_at: int
    state: tuple[int, int, int]
    cells: list[tuple[int, int]]

    @property
    def tag_shown(self) -> str:
        """The tag in hexadecimal digits, in the order of its bytes on Redis."""
        return self.tag.to_bytes(8, "little").hex()


@dataclass(frozen=True)
class Lock:
    """A lock: from when until when it holds, and how many levels of a penalty were taken."""

    start: int
    end: int
    level: int
    is_by_hand: bool

    @property
    def by(self) -> str:
        """Who set it: ``"hand"`` or ``"penalty"``."""
        return "hand" if self.is_by_hand else "penalty"

    def left(self, now: int) -> int:
        """Return for how many microseconds more it holds."""
        return max(0, self.end - max(now, self.start))


@dataclass(frozen=True)
class Value:
    """What is kept under a key."""

    created_at: int
    records: list[Record] = field(default_factory=list)

    def limits(self, now: int) -> list[Record]:
        """Return the records of limits that still count."""
        return [each for each in self.records if each.tag not in _NO_LIMITS and each.expires_at > now]

    def lock(self, now: int) -> Lock | None:
        """Return the lock, or what is remembered of it; None if there is none."""
        for record in self.records:
            if record.tag == LOCK_TAG and record.expires_at > now:
                start, end, mark = record.state
                return Lock(start, end, mark // 2, mark % 2 == 1)
        return None

    def counts(self, now: int) -> bool:
        """Whether anything is kept: a limit's record, a lock or its level.

        What processes that remember note of a reset, or of a lock by hand, stays for an hour and is nothing.
        """
        return bool(self.limits(now)) or self.lock(now) is not None

    def locked_for(self, now: int) -> int:
        """Return for how many microseconds more its identifier is locked."""
        lock = self.lock(now)
        return 0 if lock is None else lock.left(now)


def decoded(value: bytes) -> Value | None:
    """Read a value; None for one that no limiter has written."""
    if len(value) < _HEAD:
        return None
    records, at = [], _HEAD
    while at + _RECORD.size <= len(value):
        tag, size, expires_at = _RECORD.unpack_from(value, at)
        at += _RECORD.size
        if size < _STATE.size or (size - _STATE.size) % _CELL.size or at + size > len(value):
            return None
        state: tuple[int, int, int] = _STATE.unpack_from(value, at)
        cells: list[tuple[int, int]] = list(_CELL.iter_unpack(value[at + _STATE.size : at + size]))
        records.append(Record(tag, expires_at, state, cells))
        at += size
    if at != len(value):
        return None
    return Value(int.from_bytes(value[:_HEAD], "little") & _INSTANT_BITS, records)
