"""Locks: how long who went over a limit stays out, longer each time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .records import Record


@dataclass(frozen=True)
class Lock:
    """Locked in [start, end). The next violation counts on from the level; None: only ever locked by hand."""

    start: int
    end: int
    level: int | None
    by_hand: bool


class Penalty:
    def __init__(self, levels: tuple[int, ...], extend: bool, forget_after: int | None) -> None:
        self.levels, self.extend, self.forget_after = levels, extend, forget_after

    def locked(self, record: Record | None, now: int) -> Record:
        """What a violation writes: the next level, or the first when there is none to count on from."""
        level = None if record is None else record.state.level
        return self._lock(0 if level is None else level + 1, now)

    def extended(self, record: Record, now: int) -> Record:
        """What a hit while locked writes: the same level once more."""
        return self._lock(record.state.level, now)

    def _lock(self, level: int, now: int) -> Record:
        level = min(level, len(self.levels) - 1)
        length = self.levels[level]
        forget = length if self.forget_after is None else self.forget_after
        return Record(now + length + forget, Lock(now, now + length, level, by_hand=False))


def locked_by_hand(record: Record | None, now: int, length: int) -> Record:
    """What lock() writes: a level that is remembered stays so, for as long after the end as before."""
    if record is None:
        return Record(now + length, Lock(now, now + length, None, by_hand=True))
    lock = replace(record.state, start=now, end=now + length, by_hand=True)
    return Record(lock.end + record.expires_at - record.state.end, lock)


def after_hand(record: Record | None, instant: int) -> Record | None:
    """A lock of before somebody set or lifted one by hand at this instant, which ended it."""
    if record is None or record.state.start >= instant:
        return record
    return locked_by_hand(record, instant, 0)


def merged_locks(own: Record | None, told: Record | None) -> Record | None:
    """The later end, and the higher level, remembered for as long after the end as by whoever does longer."""
    if own is None or told is None:
        return own or told
    ours, theirs = own.state, told.state
    level = max((each.level for each in (ours, theirs) if each.level is not None), default=None)
    last = max(ours, theirs, key=lambda lock: (lock.end, lock.by_hand))
    merged = replace(last, start=max(ours.start, theirs.start), level=level)
    memory = max(each.expires_at - each.state.end for each in (own, told))
    return Record(merged.end + memory, merged)
