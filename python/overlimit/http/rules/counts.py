"""Where a RateLimit counts: its store, and the names of policies that this process used lately."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from overlimit import Limiter, _core
from overlimit._forks import PerProcess
from overlimit.http.identifying.identifiers import Identifiers
from overlimit.limiter import OnError
from overlimit.stores import Store

_MOST_NAMES = 1024


class UnregisteredLimiter(Limiter):
    """A limiter that may have other limits than others of its name, because they depend on the request."""

    def _register(self, name: str | None) -> None:
        """Do nothing."""


class Counts:
    """Where a RateLimit counts; safe for threads.

    The names are bounded in number, because requests may make them up.
    """

    def __init__(self, store: Store, on_error: OnError) -> None:
        """Start without names; ``on_error`` says what happens when the store fails."""
        self.store, self.on_error = store, on_error
        self._names: dict[str, tuple[str | None, object]] = {}
        self._lock = PerProcess(threading.Lock)

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
        """Reset identifiers (None: all) in policies of these names, also what was decided locally.

        Raises StoreError if the store cannot answer.
        """
        for name in dict.fromkeys(names):
            _core._reset(self.store, name, identifiers)
