"""Clocks: what tells a limiter the time, and one that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from overlimit import _core
from overlimit._messages.migration_hints import OF_CLOCK, missing
from overlimit._messages.texts import short_repr

__all__ = ["Clock", "ClockLike", "ManualClock", "reader_of"]

END_US = 2**53 - 2**50
"""The end of time, in microseconds: no clock reads it, no event has it, and no wait is longer."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@runtime_checkable
class Clock(Protocol):
    """Anything that tells the time in seconds since the Unix epoch."""

    def now(self) -> float:
        """Return the reading, in seconds."""


ClockLike: TypeAlias = Clock | Callable[[], float]
"""What ``clock=`` takes: an object with ``now()`` or a callable, in seconds since the Unix epoch."""


class _WakeUp(Protocol):
    """What wakes those who wait by a clock."""

    def set(self) -> None:
        """Look at the clock, which has moved."""


def reader_of(clock: ClockLike) -> Callable[[], float]:
    """Return what tells the time: ``now()``, or else the clock itself, which may have data of that name.

    Raises TypeError if it is neither callable nor an object with ``now()``.
    """
    reader: Callable[[], float] | None = _reader_in(clock)
    if reader is None:
        raise TypeError(f"clock must have a now() or be callable, as time.time is, not {short_repr(clock)}")
    return reader


def limiter_reader(clock: object) -> Callable[[], float]:
    """Return the same of a limiter's clock; the core calls this."""
    reader: Callable[[], float] | None = _reader_in(clock)
    if reader is None:
        raise TypeError(
            "clock must be a function such as time.time or an object with now(), in seconds since the Unix "
            f"epoch, not {short_repr(clock)}"
        )
    return reader


def _reader_in(clock: Any) -> Any:
    return next(filter(callable, (getattr(clock, "now", None), clock)), None)


class ManualClock(_core.ManualClock):
    """A clock that stands still until it is told to move: for tests and simulations.

    It starts at 0.0, which is 1970-01-01 00:00 UTC, unless ``start`` says otherwise, and keeps whole
    microseconds. Instants are seconds since the Unix epoch or aware datetimes. Moving it wakes the callers
    that wait in ``Limiter.acquire``. Thread-safe. Raises ValueError for a datetime without a time zone, and
    for an instant before 1970-01-01 or 2**53 - 2**50 microseconds (in the year 2219) or more after it.
    """

    def __init__(self, start: float | datetime = 0.0) -> None:
        """Build a clock that reads ``start``; 0.0, the Unix epoch, by default."""
        super().__init__(_seconds_of(start))
        self._wake_ups: dict[_WakeUp, None] = {}

    def advance(self, seconds: float | timedelta, /) -> None:
        """Move by this many seconds or a timedelta; a negative one moves back."""
        step = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        try:
            super().advance(step)
        except ValueError as error:
            if step > 0:
                raise
            raise ValueError(
                f"{self!r} cannot advance by {seconds!r}: {error}; a clock that moves back must start later, "
                "as ManualClock(1_700_000_000)"
            ) from None
        self._wake()

    def set(self, seconds: float | datetime, /) -> None:
        """Move to an instant: seconds since the Unix epoch, or an aware datetime."""
        super().set(_seconds_of(seconds))
        self._wake()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: whoever holds a clock moves it for everybody."""
        raise TypeError(
            "a ManualClock cannot be copied or pickled: it is shared by all who hold it, and a copy would "
            "not move with it; build another one, as ManualClock(clock.now())"
        )

    if not TYPE_CHECKING:  # so that type checkers still report missing attributes

        def __getattr__(self, name: str) -> object:
            raise missing(self, name, OF_CLOCK)

    def _add_wake_up(self, wake_up: _WakeUp) -> None:
        self._wake_ups[wake_up] = None

    def _remove_wake_up(self, wake_up: _WakeUp) -> None:
        self._wake_ups.pop(wake_up, None)

    def _wake(self) -> None:
        """Let the callers that wait look at the clock; in a forked child there are none."""
        for wake_up in self._wake_ups.copy():
            wake_up.set()


def _seconds_of(instant: float | datetime) -> float:
    if isinstance(instant, str):
        raise TypeError(
            "a ManualClock takes seconds since the Unix epoch or an aware datetime, as "
            f"datetime(2030, 1, 1, tzinfo=timezone.utc), not {short_repr(instant)}"
        )
    if not isinstance(instant, datetime):
        return instant
    if instant.utcoffset() is None:
        raise ValueError(
            "a datetime for a ManualClock must have a time zone: write datetime(..., tzinfo=timezone.utc) or "
            f"another aware datetime, not the naive {instant!r}"
        )
    return (instant - _EPOCH).total_seconds()
