"""Log messages about stores that fail, are full or are not shared: enough to act on, and no more."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from overlimit._forks import PerProcess

if TYPE_CHECKING:
    from overlimit._core import Store

K = TypeVar("K")

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
        with self.lock():
            if store in self.announced:
                self.announced[store] += 1
            suppressed = self.note(store, kind)
            if suppressed is not None:
                self.announced.setdefault(store, 1)
            return suppressed

    def note(self, store: str, kind: str, count: int = 1) -> int | None:
        """Return how many of a kind were not logged before some that are to be; None: do not log these."""
        now = self.clock()
        with self.lock():
            report = self.reports.setdefault((store, kind), _Report())
            if now - report.last < _QUIET:
                report.suppressed += count
                return None
            suppressed, report.last, report.suppressed = report.suppressed, now, 0
            return suppressed

    def note_answer(self, store: str) -> int | None:
        """Return how many calls have failed in an outage that was logged; None: none was."""
        with self.lock():
            return self.announced.pop(store, None)


_outages = _Outages()


def endpoint_of(store: Store) -> str:
    """Return where a store is, whatever its options."""
    return str(getattr(store, "endpoint", repr(store)))


def failed(store: Store, kind: str, on_error: str, message: str) -> None:
    """Log a failure that nobody raises, unless one of its kind was logged just now; the core calls this."""
    suppressed = _outages.note_failure(endpoint_of(store), kind)
    if suppressed is not None:
        more = f" ({suppressed} more like it were not logged)" if suppressed else ""
        _log.warning("%r fails (%s), so on_error=%r decides: %s%s", store, kind, on_error, message, more)


def answered(store: Store) -> None:
    """Log that a store answers again, once per outage that was logged; the core calls this."""
    calls = _outages.note_answer(endpoint_of(store))
    if calls is not None:
        _log.warning("%r answers again, after %d failed %s", store, calls, "call" if calls == 1 else "calls")


def warn_of_lost_counts(store: Store, keys: int) -> None:
    """Warn that a server had lost counts of keys, unless that was logged just now; the core calls this."""
    before = _outages.note(endpoint_of(store), "lost", keys)
    if before is not None:
        _log.warning(
            "%r had lost counts, as by FLUSHALL, a restart, an eviction or a failover; this process has "
            "brought back those of %d %s (remember)%s",
            store,
            keys,
            "key" if keys == 1 else "keys",
            f", and of {before} more since the last message like this" if before else "",
        )


def is_first(noted: MutableMapping[K, object], what: K) -> bool:
    """Note something, and tell one caller alone, whichever thread it is in, that it was not noted before."""
    mine = object()
    return noted.setdefault(what, mine) is mine


_warned_stores: weakref.WeakKeyDictionary[Store, object] = weakref.WeakKeyDictionary()


def warn_of_crowded_store(store: Store) -> None:
    """Warn, once per store object, that a full store makes identifiers share counts; the core calls this."""
    if is_first(_warned_stores, store):
        _log.warning(
            "%r is full: identifiers that find no room in it share counts, so some of them are refused "
            "early; %s",
            store,
            store._when_full,
        )


_warned_of_unleased: weakref.WeakKeyDictionary[Store, object] = weakref.WeakKeyDictionary()


def warn_of_unleased(store: Store, limiter: object, reason: str) -> None:
    """Warn, once per store object, that nothing of a limiter is leased although the store leases."""
    if is_first(_warned_of_unleased, store):
        _log.warning(
            "%r leases nothing, so every call that may be admitted asks the server: %s", limiter, reason
        )


_warned_processes: dict[int, object] = {}


def warn_of_fork(name: str | None) -> None:
    """Warn, once per process, that a forked child counts on its own; the core calls this."""
    if is_first(_warned_processes, os.getpid()):
        _log.warning(
            "%s keeps its state in memory, which a forked process does not share: N workers admit N times "
            "the limit; give it a store= that they share, as store='shm://myapp'",
            "a limiter without a name" if name is None else f"limiter {name!r}",
        )


_warned_of_others: weakref.WeakKeyDictionary[Store, dict[int, object]] = weakref.WeakKeyDictionary()
"""By store the processes whose log has the warning."""


def warn_of_other_processes(store: Store, whose: str, advice: str) -> None:
    """Warn, once per process and store, that an app which several processes serve counts in its memory."""
    if is_first(_warned_of_others.setdefault(store, {}), os.getpid()):
        is_first(_warned_processes, os.getpid())  # which says it all
        _log.warning(
            "%s counts requests in memory, which the other processes that serve it do not share: N workers "
            "admit N times the limit; %s",
            whose,
            advice,
        )


def warn_about_shared_memory(message: str) -> None:
    """Log what an operator should know of a shared file; the core calls this, once for each reason."""
    _log.warning("%s", message)
