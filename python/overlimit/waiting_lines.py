"""The lines in which callers wait for a limiter."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from overlimit._forks import PerProcess
from overlimit.sleeping import Alarm

if TYPE_CHECKING:
    from overlimit._core import Store
    from overlimit.limiter import Limiter

__all__ = ["Line", "Place", "lines"]


class Place:
    """One caller's place in the line of a limiter."""

    def __init__(self, keys: Iterable[bytes], deadline: float) -> None:
        self.keys = frozenset(keys)
        """The identifiers for which it stands in line."""
        self.deadline = deadline
        """The last instant at which it may be let in, in microseconds."""
        self.alarm = Alarm()
        """What wakes the caller, when it has become the first or waits in vain."""
        self.told = 0
        """When the store has told it to come back; 0 while that is not known."""
        self.earliest = 0
        """The instant before which it cannot be let in, by what it and those before it were told."""


class Line:
    """Who waits with one limiter, in the order of their coming: one line for each identifier."""

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}
        self._by_key: dict[bytes, dict[Place, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def append(self, place: Place) -> None:
        """Let one stand behind all who share an identifier with it."""
        self._places[place] = None
        for key in place.keys:
            self._by_key.setdefault(key, {})[place] = None
        if not self.is_first(place):
            self.foresee()

    def remove(self, place: Place) -> None:
        """Let one go, and wake those who have become the first by that."""
        self._places.pop(place, None)
        for key in place.keys:
            line = self._by_key.get(key, {})
            was_first = next(iter(line), None) is place
            line.pop(place, None)
            if not line:
                self._by_key.pop(key, None)
            elif was_first:
                self._wake_first(key)

    def is_first(self, place: Place) -> bool:
        """Whether nobody who came earlier waits for one of its identifiers."""
        return all(next(iter(self._by_key.get(key, ())), place) is place for key in place.keys)

    def wake(self, keys: Iterable[bytes] | None) -> None:
        """Wake those who are the first for one of these keys, or for any; others could not go anyway."""
        for key in list(self._by_key) if keys is None else keys:
            self._wake_first(key)

    def _wake_first(self, key: bytes) -> None:
        place = next(iter(self._by_key.get(key, ())), None)
        if place is not None and self.is_first(place):
            place.told = 0
            place.alarm.ring()

    def foresee(self) -> None:
        """Work out before when nobody can be let in, and wake those for whom that is too late."""
        ahead: dict[bytes, int] = {}
        for place in self._places:
            place.earliest = max([place.told, *(ahead.get(key, 0) for key in place.keys)])
            ahead.update(dict.fromkeys(place.keys, place.earliest))
            if place.earliest > place.deadline:
                place.alarm.ring()


class _Lines:
    """The lines of the limiters that somebody waits for; guarded by the lock.

    The lock is one that a signal handler or a finalizer may take again in the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_limiter: dict[Limiter, Line] = {}

    def join(self, limiter: Limiter, place: Place) -> None:
        with self.lock:
            self.by_limiter.setdefault(limiter, Line()).append(place)

    def leave(self, limiter: Limiter, place: Place) -> None:
        with self.lock:
            line = self.by_limiter.get(limiter, Line())
            line.remove(place)
            if not line:
                self.by_limiter.pop(limiter, None)

    def is_first(self, limiter: Limiter, place: Place) -> bool:
        with self.lock:
            return limiter not in self.by_limiter or self.by_limiter[limiter].is_first(place)

    def postpone(self, limiter: Limiter, place: Place, until: int) -> None:
        """Note what the first one was told, unless something has happened since."""
        with self.lock:
            if not place.alarm.rung and limiter in self.by_limiter:
                place.told = until
                self.by_limiter[limiter].foresee()

    def wake(self, store: Store, keys: Iterable[bytes] | None) -> None:
        """Wake those who are the first for one of these keys, or for any, on one store."""
        with self.lock:
            for limiter, line in list(self.by_limiter.items()):
                if limiter.store is store:
                    line.wake(keys)


lines = PerProcess(_Lines)
"""In a forked child nobody waits: those who did are threads of its parent."""
