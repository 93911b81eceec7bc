"""Tasks that wait for their turn: `AsyncLimiter.acquire` and `acquire_all`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from overlimit import _steps
from overlimit.aio import loops
from overlimit.waiting.acquiring import Attempt, Caller, Subject, acquiring
from overlimit.waiting.queues import USUAL, Urgency

if TYPE_CHECKING:
    from overlimit._core import Decision, Limiter


async def acquired(
    subjects: list[Subject],
    timeout: float | None,
    hit: Callable[[float], Any],
    peek: Callable[[float], Any],
    attempt: Attempt | None = None,
    urgency: Urgency = USUAL,
    *,
    asks_early: bool = False,
) -> Decision:
    """Wait in the queues of all subjects, and then for the delay.

    ``hit`` and ``peek`` are given the patience, and return the answer or a pending call. A task that is
    cancelled holds nothing: what it is granted meanwhile is refunded before the cancellation goes on.
    """
    caller = task_caller(subjects, hit, peek, asks_early=asks_early)
    return await _steps.await_calls(acquiring(subjects, timeout, caller, attempt, urgency))


def task_caller(
    subjects: list[Subject],
    hit: Callable[[float], Any],
    peek: Callable[[float], Any],
    note_refusal: Callable[[Decision], object] = bool,
    *,
    asks_early: bool = False,
) -> Caller:
    """Return how a task asks and sleeps."""

    def limiter() -> Limiter:
        return subjects[0].limiter  # without any, the first call raises

    async def hit_or_refund(patience: float) -> Any:
        return await loops.answer_or_refund(hit(patience), limiter())

    async def peek_now(patience: float) -> Any:
        return await loops.answer(peek(patience))

    async def give_back(decision: Decision) -> None:
        await loops.give_back(limiter(), decision)

    return Caller(hit_or_refund, peek_now, give_back, TaskWakeUp, note_refusal, asks_early)


class TaskWakeUp:
    """What wakes a sleeping task; any thread may do so."""

    longest_sleep = 3600.0
    """Not for ever: event loops have a latest time."""

    def __init__(self) -> None:
        self.is_notified = False
        self._is_set = False
        # The queues keep this object, and through it neither: a loop that is dropped ends with its tasks.
        self._loop = ref(asyncio.get_running_loop())
        self._sleep: ref[asyncio.Future[None]] | None = None
        self._thread = threading.get_ident()

    @property
    def is_gone(self) -> bool:
        """Whether nobody sleeps by it any more, as its event loop was closed."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def notify(self) -> None:
        """Wake the task, or keep it from falling asleep."""
        self.is_notified = True
        self.set()

    def set(self) -> None:
        """Wake the task to look at its clock."""
        loop = self._loop()
        with contextlib.suppress(RuntimeError):  # its loop is closed
            if threading.get_ident() == self._thread:
                self._wake()
            elif loop is not None:
                loop.call_soon_threadsafe(self._wake)

    async def sleep(self, seconds: float) -> None:
        """Return when it was set since the last time, or the time is up."""
        if not self._is_set and seconds > 0:
            loop = asyncio.get_running_loop()
            sleep = loop.create_future()
            self._sleep = ref(sleep)
            timer = loop.call_later(seconds, _end, sleep)
            try:
                await sleep
            finally:
                timer.cancel()
        self._is_set = False

    def _wake(self) -> None:
        self._is_set = True
        sleep = None if self._sleep is None else self._sleep()
        if sleep is not None:
            _end(sleep)


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)
