"""Where requests are counted: limiters, the names of their policies, and how they take part in a decision."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeAlias
from weakref import WeakSet

from overlimit import _core
from overlimit._forks import PerProcess
from overlimit.http.identifying.identifiers import Identifiers
from overlimit.limiter import Limiter, OnError
from overlimit.stores import Store

_MOST_NAMES = 1024


class Counts:
    """Where a RateLimit counts; safe for threads. Names are bounded in number: requests may make them up."""

    def __init__(self, store: Store, on_error: OnError) -> None:
        """Start without names; ``on_error`` says what happens when the store fails."""
        self.store, self.on_error = store, on_error
        self._names: dict[str, tuple[str | None, object]] = {}
        self._limiters: WeakSet[Limiter] = WeakSet()
        self._lock = PerProcess(threading.Lock)

    def keep(self, limiter: Limiter) -> Limiter:
        """Return a limiter that counts here, and note it for as long as it lives."""
        with self._lock():
            self._limiters.add(limiter)
        return limiter

    def limiters(self) -> list[Limiter]:
        """Return the limiters that count here."""
        with self._lock():
            return list(self._limiters)

    def note(self, name: str, endpoint: str | None = None, origin: object = None) -> None:
        """Note a name as the latest, with its origin and the only endpoint that it counts; None: several."""
        with self._lock():
            self._names.pop(name, None)
            self._names[name] = endpoint, origin
            if len(self._names) > _MOST_NAMES:
                del self._names[next(iter(self._names))]

    def latest(self, endpoint: str | None = None) -> tuple[str, ...]:
        """Return the names, the oldest first; with ``endpoint`` those that count only this one."""
        with self._lock():
            known = tuple(self._names.items())
        return tuple(name for name, (counted, _) in known if endpoint in (None, counted))

    def has_names_of(self, origin: object) -> bool:
        """Return whether one of the names is of this origin."""
        with self._lock():
            return any(each == origin for _, each in self._names.values())

    def reset(self, names: Iterable[str], identifiers: Identifiers | None) -> None:
        """Reset identifiers (None: all) in policies, also what was decided locally; raise StoreError."""
        for name in dict.fromkeys(names):
            _core._reset(self.store, name, identifiers)


Arguments: TypeAlias = tuple[Any, ...]
"""What functions of the app are called with; see `Request.arguments`."""


class Role(IntEnum):
    """How a rule takes part in a decision; the numbers are those of the core."""

    ENFORCE = 0
    """Refuses when its limit does."""
    SHADOW = 1
    """Is evaluated and charged like the enforced ones, and never refuses."""
    ON_REFUSAL = 2
    """A meta limit: charged when the enforced ones refuse; refuses everything once it is used up."""
