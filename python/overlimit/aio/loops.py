"""The event loops on which calls to stores are awaited.

A store that waits runs each call as a fiber of the core, which is suspended where a thread would be blocked.
All fibers of an event loop wait together by one descriptor, which the loop watches. So one connection serves
all tasks of a loop, and what is sent, retried and given up is the same as for threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, ref

from overlimit import _core, waiting
from overlimit._core import CallsOfLoop, PendingCall, _fork_generation
from overlimit._forks import PerProcess
from overlimit._messages.texts import short_repr

if TYPE_CHECKING:
    from overlimit._core import Decision, Limiter, Step
    from overlimit.stores import ValueStore

T = TypeVar("T")

_log = logging.getLogger("overlimit")

_MOST_THREADS = 32
"""For stores that are called in threads, in one process."""


class LoopCalls:
    """The calls to stores that one event loop awaits.

    The loop alone refers to it, by what it watches, so that it ends with the loop: when that is closed,
    connections are closed too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = CallsOfLoop()
        self._futures: dict[PendingCall, asyncio.Future[None]] = {}
        self._is_due = False
        self.made_after = _fork_generation()
        loop.add_reader(self._calls.fileno(), self._run)

    async def answer(self, call: PendingCall) -> Any:
        """Begin a call, and return or raise what it answers.

        If the task is cancelled meanwhile, a call of which nothing was sent charges nothing.
        """
        self._deliver(self._calls.begin(call))
        if not call.is_done:
            try:
                await self._end_of(call)
            except BaseException:
                self._give_up(call)
                raise
        return call.answer()

    async def answer_or_refund(self, call: PendingCall, limiter: Limiter) -> Any:
        """Return or raise what a call answers; if the task is cancelled meanwhile, refund what was charged.

        The cancellation goes on once that is done, within the time that a call to the store may take. Another
        one goes on at once, and leaves the refund to the event loop.
        """
        self._deliver(self._calls.begin(call))
        if not call.is_done:
            try:
                await self._end_of(call)
            except asyncio.CancelledError:
                await to_the_end(partial(self._refund_answer, call, limiter))
                raise
            except BaseException:  # the coroutine is closed: nothing can be awaited any more
                self._give_up(call)
                raise
        return call.answer()

    def notify(self, event: object) -> None:
        """Go on with the call that waits for this object."""
        self._deliver(self._calls.notify(event))

    async def give_back(self, limiter: Limiter, decision: Decision) -> None:
        """Refund a decision, also if the task is cancelled meanwhile; raise what the store raises."""
        await to_the_end(partial(self._refund, limiter, decision))

    async def _refund_answer(self, call: PendingCall, limiter: Limiter) -> None:
        try:
            await self._refund(limiter, await self._finished(call))
        except Exception:  # the task is cancelled, whatever the store says now
            _log.warning("what a cancelled task was charged may not have been given back", exc_info=True)

    async def _refund(self, limiter: Limiter, decision: Decision) -> None:
        refund = _core._later(_core.Limiter.refund, limiter, decision)
        if type(refund) is PendingCall:
            self._deliver(self._calls.begin(refund))
            await self._finished(refund)
        waiting.wake_after_refund(limiter.store, decision)

    async def _finished(self, call: PendingCall) -> Any:
        """Return or raise what a call answers, whoever cancels this task."""
        while not call.is_done:
            with contextlib.suppress(asyncio.CancelledError):
                await self._end_of(call)
        return call.answer()

    def _end_of(self, call: PendingCall) -> asyncio.Future[None]:
        """Return a future that is set once a call is done."""
        future = self._futures[call] = asyncio.get_running_loop().create_future()
        return future

    def _give_up(self, call: PendingCall) -> None:
        self._futures.pop(call, None)
        self._deliver(self._calls.cancel(call))

    def _run(self) -> None:
        self._is_due = False
        self._deliver(self._calls.run())

    def _deliver(self, done: Iterable[PendingCall]) -> None:
        """Tell the tasks whose calls are done; go on with the others after all tasks that are due now."""
        for call in done:
            future = self._futures.pop(call, None)
            if future is not None and not future.done():
                future.set_result(None)
        if self._calls.needs_run and not self._is_due:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                asyncio.get_running_loop().call_soon(self._run)
                self._is_due = True


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[LoopCalls]] = WeakKeyDictionary()


def of_running_loop() -> LoopCalls:
    """Return the calls of the event loop that runs in this thread; RuntimeError if none does."""
    loop = asyncio.get_running_loop()
    known = _by_loop.get(loop)
    calls = None if known is None else known()
    if calls is None or calls.made_after != _fork_generation():
        calls = LoopCalls(loop)
        _by_loop[loop] = ref(calls)
    return calls


_unfinished: set[asyncio.Task[None]] = set()
"""Tasks that go on without whoever awaited them: an event loop keeps none alive."""


async def to_the_end(work: Callable[[], Awaitable[None]]) -> None:
    """Await what goes on when this task is cancelled, and when the event loop ends, which cancels all.

    A task that is cancelled before its first turn does nothing; then the work begins anew in another.
    """
    has_begun = False

    async def begin() -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            await work()

    while not has_begun:
        task = asyncio.get_running_loop().create_task(begin())
        _unfinished.add(task)
        task.add_done_callback(_unfinished.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if has_begun:
                raise


async def answer(call: T | PendingCall) -> T:
    """Return or raise what a call answers; the answer of one that need not wait is given already."""
    if isinstance(call, PendingCall):
        answered: T = await of_running_loop().answer(call)
        return answered
    return call


async def answer_or_refund(call: T | PendingCall, limiter: Limiter) -> T:
    """Return or raise what a call answers; if the task is cancelled meanwhile, refund what was charged."""
    if isinstance(call, PendingCall):
        answered: T = await of_running_loop().answer_or_refund(call, limiter)
        return answered
    return call


async def give_back(limiter: Limiter, decision: Decision) -> None:
    """Refund a decision, also if the task is cancelled meanwhile; raise what the store raises."""
    if limiter.store.waits:
        await of_running_loop().give_back(limiter, decision)
    else:
        limiter.refund(decision)


_threads = PerProcess(lambda: ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="overlimit"))
"""What calls stores that are not awaited: those of the loop may all be waiting for such a call."""


def begin_transaction(store: ValueStore, keys: Sequence[str], step: Step) -> asyncio.Future[Any]:
    """Begin a transaction on this event loop, and go on with its call at the end; the core calls this."""
    loop, calls = asyncio.get_running_loop(), of_running_loop()
    transact_async: Callable[..., Any] | None = getattr(store, "transact_async", None)

    def ended(transaction: asyncio.Future[Any]) -> None:
        if not transaction.cancelled():
            transaction.exception()  # also where nobody waits for it any more
        calls.notify(step)

    transaction: asyncio.Future[Any]
    if transact_async is None:
        run = contextvars.copy_context().run
        transaction = loop.run_in_executor(_threads(), run, store.transact, keys, step)
    elif asyncio.iscoroutine(coroutine := transact_async(keys, step)):
        transaction = loop.create_task(coroutine)
    else:
        raise TypeError(
            f"{type(store).__name__}.transact_async must return a coroutine, as it does if it is defined by "
            f"async def, not {short_repr(coroutine)}"
        )
    transaction.add_done_callback(ended)
    return transaction
