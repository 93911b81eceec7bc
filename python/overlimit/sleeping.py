"""Sleeping until an instant of a limiter's clock, or until something happens."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsFloat

from overlimit._arguments import shown
from overlimit.clocks import ManualClock

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.limiter import Limiter

__all__ = ["END_US", "Alarm", "Watch", "micros_of", "watch_of"]

END_US = 2**53 - 2**50
"""The end of time: no clock reads it, and no wait is longer."""


class Alarm:
    """What wakes a sleeper: it is rung, or a clock was moved.

    Made of a lock that is locked while there is nothing to wake up for. Unlike a ``threading.Event``, it
    stays whole at whatever moment a signal handler raises.
    """

    def __init__(self) -> None:
        self.rung = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep."""
        self.rung = True
        self.set()

    def set(self) -> None:
        """Wake the sleeper to look at its clock."""
        with contextlib.suppress(RuntimeError):  # it is set already
            self._lock.release()

    def sleep(self, seconds: float | None) -> None:
        """Return when it was set since the last time, or the time is up."""
        self._lock.acquire(timeout=-1 if seconds is None else seconds)

    def rings_within(self, seconds: float) -> bool:
        """Sleep for so many seconds of real time at most; say whether it was rung."""
        self.sleep(0)  # what a clock may have left behind
        if not self.rung:
            self.sleep(seconds)
        return self.rung


class Watch:
    """A limiter's clock in whole microseconds, and how to sleep by it; without one a steady clock."""

    def __init__(self, now: Callable[[], float] | None, manual: ManualClock | None) -> None:
        self._now, self._manual = now, manual

    @property
    def stands_still(self) -> bool:
        """Whether it's a clock that somebody moves: then all who sleep until an instant wake at once."""
        return self._manual is not None

    def now(self) -> int:
        """Return the reading; raise TypeError or ValueError for what is not an instant."""
        if self._now is None:
            return time.monotonic_ns() // 1_000
        reading = self._now()
        if not isinstance(reading, SupportsFloat):
            raise TypeError(f"what the clock returns must be a number of seconds, not {shown(reading)}")
        micros = micros_of(reading) if math.isfinite(reading) else END_US
        if not 0 <= micros < END_US:
            raise ValueError(
                f"what the clock returns must be a number of seconds below 7.88e9, not {shown(reading)}"
            )
        return micros

    def time_of(self, decision: Decision) -> int:
        """When a decision just made was made."""
        return self.now() if self._now is None else micros_of(decision.time)

    def wait(self, alarm: Alarm, until: float) -> None:
        """Return at an instant, or earlier when the alarm is rung."""
        if self._manual is not None:
            self._manual._watch(alarm)
        try:
            while not alarm.rung and (left := until - self.now()) > 0:
                alarm.sleep(None if self._manual else min(left, END_US) / 1e6)
        finally:
            if self._manual is not None:
                self._manual._unwatch(alarm)


def watch_of(limiter: Limiter) -> Watch:
    """Return what tells the time to those who wait for a limiter."""
    clock = limiter.clock
    if clock is None:
        return Watch(None, None)
    owner = getattr(clock, "__self__", clock)  # of clock.now, given as a callable
    return Watch(getattr(clock, "now", clock), owner if isinstance(owner, ManualClock) else None)


def micros_of(seconds: float) -> int:
    """Seconds in microseconds, to the nearest; what is beyond all bounds is as good as the bound."""
    if seconds >= END_US / 1e6:
        return END_US
    whole = math.floor(seconds)
    return whole * 1_000_000 + round((seconds - whole) * 1_000_000)
