"""Things that one may use at a time each, which are handed to whoever has waited longest."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from overlimit._steps import Steps, run_calls

R = TypeVar("R")
T = TypeVar("T")

_LOOK = 0.1
"""After how many seconds who waits looks again: Ctrl-C may have stopped the one who was to tell."""


class FairPool(Generic[T]):
    """Things that one thread or task may use at a time each, such as connections.

    Ctrl-C, or the timeout of a greenlet, may come after any call. So what is taken goes from ``free`` into a
    list of whoever takes it by one call into C, and goes back by another, in a ``finally``, as in ``using``.
    """

    _bell: Callable[[], Any] = SimpleQueue
    _looks: Callable[[], float] = staticmethod(lambda: _LOOK)
    """After how many seconds those look again who are not the first to wait."""

    def __init__(self, things: Iterable[T]) -> None:
        self.things = tuple(things)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Have all of them free and nobody wait, as in a child of a fork."""
        self.free = deque(self.things)
        self._waiting: dict[Any, None] = {}  # those who wait, by what wakes them; who came first is first

    def take_now(self, taken: list[T]) -> bool:
        """Take one if one is free and nobody waits, and return whether that was so."""
        return not self._waiting and self._took(taken)

    def take(self, taken: list[T], time_left: Callable[[], float]) -> Steps[Any, None]:
        """Wait for one; raise TimeoutError when the time is over."""
        bell = self._bell()
        try:
            self._waiting[bell] = None
            while not ((is_first := [bell] == list(self._waiting)[:1]) and self._took(taken)):
                if (left := time_left()) <= 0:
                    raise TimeoutError(f"others of this process used all connections: {len(self.things)}")
                yield partial(self._wait, bell, min(left, _LOOK if is_first else self._looks()))
        finally:
            self._waiting.pop(bell, None)
            self.tell()

    def tell(self) -> None:
        """Have whoever has waited longest look what is free."""
        for bell in list(self._waiting)[:1]:
            bell.put_nowait(None)

    def using(self, time_left: Callable[[], float], use: Callable[[T], R]) -> R:
        """Use one in this thread, and return the result; raise TimeoutError if none is free in time."""
        taken: list[T] = []
        try:
            if not self.take_now(taken):
                run_calls(self.take(taken, time_left))
            return use(*taken)
        finally:
            self.free.extend(taken)
            if self._waiting:
                self.tell()

    def _took(self, taken: list[T]) -> bool:
        try:
            taken.extend(map(deque.pop, (self.free,)))
        except IndexError:
            return False
        return True

    def _wait(self, bell: Any, seconds: float) -> Any:
        with suppress(Empty):
            bell.get(timeout=seconds)


class FairPoolOfLoop(FairPool[T]):
    """Those of the tasks of an event loop of asyncio, thousands of which may wait."""

    _bell = asyncio.Queue
    _looks = staticmethod(lambda: random.uniform(1.0, 3.0))  # so that they are not all busy at a time

    async def _wait(self, bell: Any, seconds: float) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await bell.get()


def until(seconds: float) -> Callable[[], float]:
    """Return what tells how many of these seconds are left."""
    ends_at = time.monotonic() + seconds
    return lambda: ends_at - time.monotonic()
