"""The names of counts that a process has used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from overlimit._forks import PerProcess

__all__ = ["MadeNames"]

_MOST = 1024


class MadeNames:
    """The latest names, as many as a process may remember though requests make them up; safe for threads."""

    def __init__(self) -> None:
        """Start without any."""
        self._names: dict[str, str | None] = {}
        self._lock = PerProcess(threading.Lock)

    def add(self, name: str, endpoint: str | None = None) -> None:
        """Note a name as the latest, and the endpoint that it counts alone; None: there is none."""
        with self._lock():
            self._names.pop(name, None)
            self._names[name] = endpoint
            if len(self._names) > _MOST:
                del self._names[next(iter(self._names))]

    def __iter__(self) -> Iterator[str]:
        """Yield what is known now, the oldest first."""
        with self._lock():
            known = tuple(self._names)
        return iter(known)

    def of_endpoint(self, endpoint: str) -> Iterator[str]:
        """Yield what is known now to count this endpoint alone."""
        with self._lock():
            known = tuple(self._names.items())
        return (name for name, counted in known if counted == endpoint)
