"""Log messages about stores that fail: enough to act on, however many calls fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlimit._forks import PerProcess

if TYPE_CHECKING:
    from overlimit._core import Store

_log = logging.getLogger("overlimit")

_QUIET = 10.0
"""Seconds from one message to the next about the same endpoint and kind of failure."""


@dataclass
class _Report:
    """The messages about one endpoint and one kind of failure."""

    last: float = -_QUIET
    suppressed: int = 0


class _Outages:
    """What has been logged; guarded by the lock, which a log handler that hits a limiter may take again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = PerProcess(threading.RLock)
        self.reports: dict[tuple[str, str], _Report] = {}
        self.announced: dict[str, int] = {}
        """How many calls have failed in each outage that the log knows of."""

    def note_failure(self, store: str, kind: str) -> int | None:
        """Return how many failures were not logged before one that is to be; None: do not log this one."""
        now = self.clock()
        with self.lock():
            report = self.reports.setdefault((store, kind), _Report())
            if store in self.announced:
                self.announced[store] += 1
            if now - report.last < _QUIET:
                report.suppressed += 1
                return None
            self.announced.setdefault(store, 1)
            suppressed, report.last, report.suppressed = report.suppressed, now, 0
            return suppressed

    def note_answer(self, store: str) -> int | None:
        """Return how many calls have failed in an outage that was logged; None: none was."""
        with self.lock():
            return self.announced.pop(store, None)


_outages = _Outages()


def _endpoint(store: Store) -> str:
    """Return where a store is, whatever its options."""
    return str(getattr(store, "endpoint", repr(store)))


def failed(store: Store, kind: str, on_error: str, message: str) -> None:
    """Log a failure that nobody raises, unless one of its kind was logged just now; the core calls this."""
    suppressed = _outages.note_failure(_endpoint(store), kind)
    if suppressed is not None:
        more = f" ({suppressed} more like it were not logged)" if suppressed else ""
        _log.warning("%r fails (%s), so on_error=%r decides: %s%s", store, kind, on_error, message, more)


def answered(store: Store) -> None:
    """Log that a store answers again, once per outage that was logged; the core calls this."""
    calls = _outages.note_answer(_endpoint(store))
    if calls is not None:
        _log.warning("%r answers again, after %d failed calls", store, calls)
