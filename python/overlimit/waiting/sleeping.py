"""Sleeping until an instant of a limiter's clock, or until something happens."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, TypeAlias, TypeVar

from overlimit import _core, _steps
from overlimit._messages.texts import short_repr
from overlimit.clocks import END_US, ManualClock, reader_of

if TYPE_CHECKING:
    from overlimit._core import Decision, Limiter

T = TypeVar("T")

_LONGEST_SLEEP = 0.5
"""How long one sleeps at a stretch, in seconds, by a clock that may jump without saying so."""

_LONGEST_STANDSTILL = 60.0
"""How long one waits by a clock that does not move at all, in seconds of real time."""

_SHORTEST_LOOK, _LONGEST_LOOK = 0.001, 0.01
"""The same while all follow ``time.time`` in a test: what has replaced it wakes nobody."""

Followed: TypeAlias = "ManualClock | Callable[[], float]"
"""What limiters without a clock may follow in a test."""

Steps: TypeAlias = _steps.Steps[Callable[[], Any], T]
"""What a caller does while it waits: sleep, or ask a store."""


class AnyWakeUp(Protocol):
    """What wakes a sleeping caller, a thread or a task."""

    is_notified: bool

    longest_sleep: float
    """How long one sleeps at a stretch, in seconds, though nothing can have changed."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody sleeps by it any more, as its event loop was closed."""

    def notify(self) -> None:
        """Wake the caller, or keep it from falling asleep."""

    def set(self) -> None:
        """Wake the caller to look at its clock."""

    def sleep(self, seconds: float, /) -> Any:
        """Return when it was set since the last time, or the time is up; of a task, to be awaited."""


class WakeUp:
    """What wakes a sleeping caller: somebody notifies it, or moves the clock it sleeps by.

    It is a lock, locked while there is nothing to wake up for. Unlike a ``threading.Event``, it stays
    consistent at whatever moment a signal handler raises.
    """

    is_gone = False
    longest_sleep = 0.5
    """A signal that arrives while Python falls asleep does not wake it: the handler runs after the sleep."""

    def __init__(self) -> None:
        self.is_notified = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def notify(self) -> None:
        """Wake the caller, or keep it from falling asleep."""
        self.is_notified = True
        self.set()

    def set(self) -> None:
        """Wake the caller to look at its clock."""
        with contextlib.suppress(RuntimeError):  # it is set already
            self._lock.release()

    def sleep(self, seconds: float) -> None:
        """Return when it was set since the last time, or the time is up."""
        self._lock.acquire(timeout=seconds)


def notified_within(wake_up: AnyWakeUp, seconds: float) -> Steps[bool]:
    """Sleep for so many seconds of real time at most; say whether the wake-up was notified."""
    yield partial(wake_up.sleep, 0)  # what a clock may have left behind
    if not wake_up.is_notified:
        yield partial(wake_up.sleep, seconds)
    return wake_up.is_notified


class WaitingClock:
    """A limiter's clock in whole microseconds, and how to sleep by it."""

    def __init__(self, now: Callable[[], float], manual: ManualClock | None) -> None:
        self._now, self._manual = now, manual

    @property
    def stands_still(self) -> bool:
        """Whether it is a ManualClock: then all that sleep until an instant wake at once."""
        return self._manual is not None

    def now(self) -> int:
        """Return the reading; raise TypeError or ValueError for what is not an instant."""
        reading = self._now()
        if not isinstance(reading, SupportsFloat):
            raise TypeError(f"what the clock returns must be a number of seconds, not {short_repr(reading)}")
        micros = micros_of(reading) if -1 < reading < END_US else END_US
        if not 0 <= micros < END_US:
            raise ValueError(
                "what the clock returns must be between 1970 and 2219, in seconds since the Unix epoch, "
                f"not {short_repr(reading)}"
            )
        return micros

    def time_of(self, decision: Decision) -> int:
        """When a decision just made was made."""
        return micros_of(decision.time)

    def waiting(self, wake_up: AnyWakeUp, until: float) -> Steps[None]:
        """Wait until an instant, or until the wake-up is notified."""
        if self._manual is not None:
            self._manual._add_wake_up(wake_up)
        try:
            yield from self._waiting(wake_up, until)
        finally:
            if self._manual is not None:
                self._manual._remove_wake_up(wake_up)

    def _waiting(self, wake_up: AnyWakeUp, until: float) -> Steps[None]:
        shown, since = None, 0
        while not wake_up.is_notified and (left := until - (now := self.now())) > 0:
            if now != shown:
                shown, since = now, _core._steady_micros()
            elif left < math.inf and _core._steady_micros() - since >= _LONGEST_STANDSTILL * 1e6:
                raise RuntimeError(
                    f"this call waits for {left / 1e6:g} s by a clock that has not moved for "
                    f"{_LONGEST_STANDSTILL:g} s of real time: move it in another thread or task while the "
                    "call waits, or ask with timeout=0"
                )
            yield partial(wake_up.sleep, min(self._stretch(wake_up, left), _LONGEST_STANDSTILL))

    def _stretch(self, _wake_up: AnyWakeUp, left: float) -> float:
        """Return the seconds to sleep at a stretch, of a wait of so many microseconds."""
        return _LONGEST_SLEEP if self.stands_still else min(left / 1e6, _LONGEST_SLEEP)


class OwnTime(WaitingClock):
    """What limiters without a clock wait by: the monotonic clock, or the one that all of them follow.

    It runs on from one to the other, so that callers who wait meanwhile keep their deadlines.
    """

    def __init__(self) -> None:
        self._source: tuple[Followed | None, int] = (None, 0)  # what is read, and what is added to it
        self._latest = 0
        self._sleeping: dict[AnyWakeUp, None] = {}

    def follow(self, clock: Followed | None) -> None:
        """Run on by a clock, or with None by the monotonic one.

        What stood in the place of ``time.time`` may be gone by now: then it runs on from the latest reading.
        """
        followed, _ = self._source
        now = self._latest if callable(followed) else self.now()
        self._source, self._latest = (clock, now - _micros_by(clock)), now
        if isinstance(followed, ManualClock):
            followed._remove_wake_up(self)
        if isinstance(clock, ManualClock):
            clock._add_wake_up(self)
        self.set()

    def set(self) -> None:
        """Have all that sleep look at the clock: a ManualClock calls it when it is moved."""
        for wake_up in self._sleeping.copy():
            wake_up.set()

    @property
    def stands_still(self) -> bool:
        """Whether all follow a ManualClock."""
        return isinstance(self._source[0], ManualClock)

    def now(self) -> int:
        """Return the reading, which counts from no instant in particular."""
        clock, added = self._source
        self._latest = _micros_by(clock) + added
        return self._latest

    def time_of(self, decision: Decision) -> int:
        """When a decision just made was made; of a store that tells its own time, just now.

        No later than now, since it may have been made by another clock than the one that is followed by now.
        """
        clock, added = self._source
        return self.now() if clock is None else min(self.now(), micros_of(decision.time) + added)

    def waiting(self, wake_up: AnyWakeUp, until: float) -> Steps[None]:
        """Wait until an instant, or until the wake-up is notified."""
        self._sleeping[wake_up] = None
        try:
            yield from self._waiting(wake_up, until)
        finally:
            self._sleeping.pop(wake_up, None)

    def _stretch(self, wake_up: AnyWakeUp, left: float) -> float:
        if callable(self._source[0]):
            return max(_SHORTEST_LOOK, min(left / 1e6, _LONGEST_LOOK))
        return wake_up.longest_sleep if self.stands_still else min(left / 1e6, wake_up.longest_sleep)


def present_time() -> float:
    """Return what ``time.time`` says, whoever has patched it."""
    return time.time()


def _micros_by(clock: Followed | None) -> int:
    if clock is None:
        return _core._steady_micros()
    return micros_of(clock.now() if isinstance(clock, ManualClock) else float(clock()))


own_time = OwnTime()


def clock_of(limiter: Limiter) -> WaitingClock:
    """Return the clock by which the callers of a limiter wait."""
    clock = limiter.clock
    if clock is None:
        return own_time
    if limiter._tells_time_time:
        return WaitingClock(present_time, None)
    owner = getattr(clock, "__self__", clock)  # of clock.now, given as a callable
    return WaitingClock(reader_of(clock), owner if isinstance(owner, ManualClock) else None)


def micros_of(seconds: float) -> int:
    """Return seconds in microseconds, to the nearest, and ``END_US`` at most."""
    if seconds >= END_US / 1e6:
        return END_US
    whole = math.floor(seconds)
    return whole * 1_000_000 + round((seconds - whole) * 1_000_000)
