"""The Limiter: limits, a name and a store, asked with hit()."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from overlimit import _core
from overlimit.limits import Limit, as_limits
from overlimit.stores import Store, as_store

if TYPE_CHECKING:
    from overlimit.limits import LimitsLike

__all__ = ["Clock", "ClockLike", "Limiter"]

_log = logging.getLogger("overlimit")


@runtime_checkable
class Clock(Protocol):
    """Anything that tells the time in seconds since the Unix epoch."""

    def now(self) -> float:
        """The reading, in seconds."""


ClockLike: TypeAlias = "Clock | Callable[[], float]"


class Limiter(_core.Limiter):
    """Decides whether identifiers may spend a cost under several limits, all or nothing.

    Parameters
    ----------
    limits
        A text such as ``"10/second; 120/minute; 240/hour"``, a limit, a ``(duration, limit[, precision])``
        tuple with durations in seconds, or a list of these; 1 to 16 limits.
    name
        The policy's name; it is part of the key, so that limiters with other names have state of their own.
    store
        ``"memory://"`` (this process), ``"redis://host:port/db"``, ``"unix:///path"``, or a store object.
    algorithm
        What texts and tuples mean: ``"fixed_window"``, ``"sliding_window"`` or ``"token_bucket"``. By
        default sliding windows, or a token bucket where the text says ``burst``.
    clock
        Where the time comes from: an object with ``now()`` or a callable, in float seconds. By default the
        store's own clock.

    Building one connects to nothing. Thread-safe. Raises InvalidLimit for limits that cannot be, and
    ValueError or TypeError for another wrong argument.
    """

    def __init__(
        self,
        limits: LimitsLike,
        *,
        name: str = "default",
        store: str | Store = "memory://",
        algorithm: str | None = None,
        clock: ClockLike | None = None,
    ) -> None:
        given = as_limits(limits, algorithm)
        super().__init__(name, given, as_store(store, clock), clock)
        _warn_of_other_limits(self.store, name, given)

    def __repr__(self) -> str:
        return f"Limiter({list(self.limits)!r}, name={self.name!r}, store={self.store!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.limits, self.name, self.store, self.clock)


def _rebuilt(limits: tuple[Limit, ...], name: str, store: Store, clock: ClockLike | None) -> Limiter:
    return Limiter(list(limits), name=name, store=store, clock=clock)


_warned_processes: set[int] = set()


def warn_of_fork(name: str) -> None:
    """Warn, once per process, that a forked child counts on its own; the core calls this."""
    if os.getpid() not in _warned_processes:
        _warned_processes.add(os.getpid())
        _log.warning(
            "limiter %r keeps its state in memory, which a forked process does not share: N workers admit "
            "N times the limit; give it a store= that they share",
            name,
        )


_named: weakref.WeakKeyDictionary[Store, dict[str, frozenset[Limit]]] = weakref.WeakKeyDictionary()


def _warn_of_other_limits(store: Store, name: str, limits: tuple[Limit, ...]) -> None:
    known = _named.setdefault(store, {})
    earlier = known.setdefault(name, frozenset(limits))
    if earlier != frozenset(limits):
        _log.warning(
            "two limiters named %r on one store have different limits: those alike in algorithm and period "
            "share their counts; give one of the limiters another name=",
            name,
        )
        known[name] = frozenset(limits)
