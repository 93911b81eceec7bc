"""Clocks: what tells a limiter the time, and one that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from overlimit import _core

if TYPE_CHECKING:
    from overlimit.sleeping import Alarm

__all__ = ["Clock", "ClockLike", "ManualClock"]


@runtime_checkable
class Clock(Protocol):
    """Anything that tells the time in seconds since the Unix epoch."""

    def now(self) -> float:
        """The reading, in seconds."""


ClockLike: TypeAlias = "Clock | Callable[[], float]"


class ManualClock(_core.ManualClock):
    """A clock that stands still until it is told to move: for tests and simulations.

    It keeps whole microseconds; ``start`` is in seconds since the Unix epoch. Moving it wakes who waits in
    ``Limiter.acquire``. Thread-safe. Raises ValueError for an instant outside [0, 2**53 - 2**50)
    microseconds.
    """

    def __init__(self, start: float = 0.0) -> None:
        """Build a clock that reads ``start``."""
        super().__init__(start)
        self._alarms: dict[Alarm, None] = {}

    def advance(self, seconds: float, /) -> None:
        """Move by so many seconds; a negative number moves back."""
        super().advance(seconds)
        self._wake()

    def set(self, seconds: float, /) -> None:
        """Move to an instant, in seconds since the Unix epoch."""
        super().set(seconds)
        self._wake()

    def _watch(self, alarm: Alarm) -> None:
        self._alarms[alarm] = None

    def _unwatch(self, alarm: Alarm) -> None:
        self._alarms.pop(alarm, None)

    def _wake(self) -> None:
        """Let whoever waits look at the clock; that nobody does so in a forked child does no harm."""
        for alarm in self._alarms.copy():
            alarm.set()
