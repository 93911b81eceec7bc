"""What a store holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

Key = tuple[object, ...]
"""Policy and identifier, then what tells the records of these two apart."""


@dataclass(frozen=True)
class Record:
    """A state, and the instant from which it counts as never seen, as it was written."""

    expires_at: int
    state: Any


@dataclass
class Records:
    """The records of any number of policies, and those that a call has found expired."""

    written: dict[Key, Record] = field(default_factory=dict)
    creations: dict[Key, int] = field(default_factory=dict)
    seen_expired: dict[Key, int] = field(default_factory=dict)
    created: itertools.count[int] = field(default_factory=itertools.count)

    def live(self, key: Key, now: int) -> Record | None:
        record = self.written.get(key)
        if record is not None and record.expires_at <= now:
            self.seen_expired[key] = record.expires_at
            return None
        return record

    def write(self, key: Key, record: Record) -> None:
        if key[:2] not in self.creations:
            self.creations[key[:2]] = next(self.created)
        self.written[key] = record
        self.seen_expired.pop(key, None)

    def creation_of(self, key: Key) -> int | None:
        return self.creations.get(key[:2])

    def drop(self, dropped: set[Key]) -> None:
        """Forget everything of these policies and identifiers."""
        for key in [key for key in self.written if key[:2] in dropped]:
            del self.written[key]
            self.seen_expired.pop(key, None)
        for owner in dropped:
            self.creations.pop(owner, None)
