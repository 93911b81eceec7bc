"""For tests: a time that all limiters follow, and counts that begin anew.

pytest users have both as the fixtures ``overlimit_time`` and ``overlimit_fresh``, which need no import.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import ParamSpec, TypeVar

from overlimit import _core, waiting
from overlimit._forks import PerProcess
from overlimit.clocks import ManualClock
from overlimit.stores.memory import memory_stores

__all__ = ["fresh_counts", "manual_time"]

P = ParamSpec("P")
R = TypeVar("R")

_clocks: dict[ManualClock, None] = {}  # the newest is followed
_changing = PerProcess(threading.RLock)


def _needs_parentheses(make: Callable[P, R]) -> Callable[P, R]:
    """Make a decorator that was written without its parentheses say so."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and callable(args[0]):
            raise TypeError(f"{make.__name__} takes an instant, not a function: write @{make.__name__}()")
        return make(*args, **kwargs)

    return made


@_needs_parentheses
@contextlib.contextmanager
def manual_time(start: float | datetime | None = None) -> Iterator[ManualClock]:
    """Have every limiter of this process that was given no ``clock=`` follow a ManualClock meanwhile.

    So do limiters that exist already, those that an extension, a middleware, a recipe or ``over_limit``
    makes, and callers that wait in ``acquire``, which moving the clock wakes; in memory and on Redis, which
    then decides by this clock instead of the server's. Afterwards everything follows its own clock again,
    whatever was raised, and who still waits goes on by that. Limiters with a clock of their own keep it.

    Counts stay where they are, also those charged at a later time than the clock shows afterwards: they
    stand until that time has come, or ``fresh_counts`` forgets them. Within another ``manual_time`` the inner
    clock is followed, and after it the outer one again. Threads share it, and each call under way ends at
    the time at which it began. It may decorate a function, which is not given the clock.

    Parameters
    ----------
    start
        What the clock reads at first: seconds since the Unix epoch or an aware datetime. By default now, by
        ``time.time``.

    Yields
    ------
    ManualClock
        Stands still until ``advance`` or ``set`` moves it.

    Raises
    ------
    ValueError, TypeError
        ``start`` is no instant that a ManualClock shows.
    """
    clock = ManualClock(time.time() if start is None else start)
    try:
        with _changing():
            _clocks[clock] = None
            _follow_newest()
        yield clock
    finally:
        with _changing():
            _clocks.pop(clock, None)
            _follow_newest()


def fresh_counts() -> None:
    """Have all memory stores of this process forget everything: counts, locks and levels of penalties.

    That is ``"memory://"``, also the one that limiters with a clock of their own have, every
    ``MemoryStore``, and what ``on_error="local"`` has counted. Callers that wait in ``acquire`` ask again. A
    refund of what was charged before gives nothing back. Shared memory and Redis stay as they are: use
    another name or prefix for each test there, or ``reset_all``. Each store forgets in one step, so it may be
    called while other threads hit.
    """
    for store in memory_stores():
        store._clear()
        waiting.wake_waiters(store)


def _follow_newest() -> None:
    clock = next(reversed(_clocks), None)
    _core._follow_clock(clock)
    waiting.follow(clock)
