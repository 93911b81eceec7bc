"""A time that all limiters follow, and counts that begin anew."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, cast

from overlimit import _core, waiting
from overlimit._forks import PerProcess
from overlimit.clocks import ManualClock
from overlimit.stores.memory import MemoryStore, memory_stores
from overlimit.stores.values import ValueStore, value_stores
from overlimit.waiting.sleeping import Followed, present_time

F = TypeVar("F", bound=Callable[..., Any])

_followed: dict[object, Followed] = {}  # by its block: the newest is followed
_changing = PerProcess(threading.RLock)


class _Block:
    """A time that all limiters without a clock follow in a ``with`` block, or in what it decorates."""

    def __init__(self) -> None:
        self._begun: list[object] = []

    def __enter__(self) -> object:
        raise NotImplementedError

    def _begin(self, clock: Followed) -> None:
        with _changing():
            self._begun.append(block := object())
            _followed[block] = clock
            _follow_newest()

    def __exit__(self, *error: object) -> None:
        with _changing():
            _followed.pop(self._begun.pop(), None)
            _follow_newest()

    def __call__(self, function: F) -> F:
        """Return the function that runs while the time is followed."""
        if isinstance(function, type):
            raise TypeError(
                f"{type(self).__name__} decorates functions, not the class {function.__name__}: decorate its "
                "methods, or enter it where each test is set up"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            name = type(self).__name__
            raise TypeError(
                f"{name} cannot decorate the generator function {function.__name__}, which runs after its "
                f"call: write with {name}() inside it"
            )

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        @functools.wraps(function)
        async def run_coroutine(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return cast("F", run_coroutine if inspect.iscoroutinefunction(function) else run)


class manual_time(_Block):  # it is used as a function is
    """Have every limiter of this process that was given no ``clock=`` follow a ManualClock meanwhile.

    So do limiters that exist already, those that an extension, a middleware, a recipe or ``over_limit``
    makes, and callers that wait in ``acquire``, which moving the clock wakes; in memory and on Redis, which
    then decides by this clock instead of the server's. Afterwards everything follows its own clock again,
    whatever was raised, and whoever still waits goes on by that. Limiters with a clock of their own keep it.
    Time that stands still ends no wait, not even one with a timeout: move it from another thread or task.
    A wait during which it does not move for a minute of real time raises RuntimeError.

    Counts stay where they are, also those charged at a later time than the clock shows afterwards: they
    stand until that time has come, or ``fresh_counts`` forgets them. Within another ``manual_time`` the inner
    clock is followed, and after it the outer one again. Threads share it, and each call under way ends at
    the time at which it began. It may decorate a function, also a coroutine function, which is not given the
    clock.

    Parameters
    ----------
    start
        What the clock reads at first: seconds since the Unix epoch or an aware datetime. By default now, by
        ``time.time``.

    Returns
    -------
    ManualClock
        What ``with`` gives: it stands still until ``advance`` or ``set`` moves it.

    Raises
    ------
    ValueError, TypeError
        ``start`` is no instant that a ManualClock shows, or what is decorated is a class or a generator
        function.
    """

    def __init__(self, start: float | datetime | None = None) -> None:
        if callable(start):
            raise TypeError("manual_time takes an instant, not a function: write @manual_time()")
        super().__init__()
        self._start = start

    def __enter__(self) -> ManualClock:
        clock = ManualClock(time.time() if self._start is None else self._start)
        self._begin(clock)
        return clock


class python_time(_Block):
    """Have every limiter of this process that was given no ``clock=`` follow ``time.time`` meanwhile.

    So freezegun, time-machine and ``mock.patch("time.time")`` move them, before, after or within this block,
    as if each had been given ``clock=time.time``: those that exist already, those that an extension, a
    middleware, a recipe or ``over_limit`` makes, and callers that wait in ``acquire``, who look at the time
    every hundredth of a second. In memory and on Redis, which then decides by it instead of the server's
    clock. Afterwards everything follows its own clock again, and whoever still waits has as much time left as
    at the last look. Limiters with a clock of their own keep it.

    Counts, blocks within one another, threads and decorated functions are as with ``manual_time``.

    Raises
    ------
    ValueError, TypeError
        What stands in the place of ``time.time`` says no instant as the block begins, what is decorated is a
        class or a generator function, or the parentheses are missing.
    """

    def __init__(self, *given: object) -> None:
        if given:
            raise TypeError("python_time takes nothing: write @python_time(), or with python_time()")
        super().__init__()

    def __enter__(self) -> None:
        ManualClock(time.time())  # it raises for what is no instant
        self._begin(present_time)


def fresh_counts() -> None:
    """Have all stores in this process's memory forget everything: counts, locks and levels of penalties.

    That is ``"memory://"``, also the one that limiters with a clock of their own have, every
    ``MemoryStore``, what ``on_error="local"`` has counted, and ``"sqlite://"``, which is in memory. Callers
    that wait in ``acquire`` ask again. A refund of what was charged before gives nothing back, except in
    SQLite. Shared memory, files and servers stay as they are: use another name or prefix for each test there,
    or ``reset_all``. Each store forgets in one step, so it may be called while other threads hit.
    """
    stores: list[MemoryStore | ValueStore] = [*memory_stores(), *value_stores()]
    for store in stores:
        store._clear()
        waiting.wake_waiters(store)


def _follow_newest() -> None:
    clock = next(reversed(_followed.values()), None)
    _core._follow_clock(time.time if clock is present_time else clock)
    waiting.follow(clock)
