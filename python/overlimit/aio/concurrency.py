"""How many at once, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NoReturn

from overlimit._core import _fork_generation
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.migration_hints import OF_ACQUIRE, NotHere
from overlimit.aio import loops
from overlimit.aio.limiter import AsyncLimiter
from overlimit.errors import StoreError
from overlimit.recipes.concurrency import Concurrency, held
from overlimit.waiting.acquiring import timeout_us
from overlimit.waiting.throttled_calls import admitted

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.clocks import ClockLike
    from overlimit.limits.quantities import Seconds
    from overlimit.stores import Store

_log = logging.getLogger("overlimit")

_INSTEAD = "write async with concurrency.slot('user:42')"
_WAITING = "write async with concurrency.slot('user:42', timeout=5)"


class AsyncSlot:
    """One of a key's slots, taken, and true, until ``leave``; made by ``enter`` and ``acquire``.

    It is also left when nobody refers to it any more: in memory at once, else as long as its event loop goes
    on, and when the interpreter exits. Otherwise it is free once its longest time is over. It can be neither
    pickled nor copied.
    """

    _has_left = True

    def __init__(self, limiter: AsyncLimiter, decision: Decision) -> None:
        self._limiter, self._decision = limiter, decision
        self._loop = asyncio.get_running_loop()
        self._entered_after = _fork_generation()
        self._has_left = False
        held.add(self)

    async def leave(self) -> None:
        """Free the slot for another; once: a second call does nothing, nor does one after ``longest``.

        Raises StoreError when the store cannot answer. The slot is then free ``longest`` seconds after it was
        taken, or at another ``leave`` if the error is not ``maybe_charged``.
        """
        if not self:
            return
        await self._limiter.refund(self._decision)
        self._has_left = True

    def _leave_now(self) -> None:
        if self:
            self._limiter._limiter.refund(self._decision)

    def __del__(self) -> None:
        if not self:
            return
        if not self._limiter._waits:
            self._leave_now()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(_start_leaving, self._limiter, self._decision)

    def __bool__(self) -> bool:
        return not self._has_left and self._entered_after == _fork_generation()

    def __repr__(self) -> str:
        return f"<AsyncSlot of {self._decision.identifier!r}, {'held' if self else 'left'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AsyncSlot belongs to the process that entered: it cannot be pickled or copied")

    # A type checker shall go on telling that it is not there.
    if not TYPE_CHECKING:
        # Of each pair, Python 3.14 asks for the other one first.
        __aenter__, __aexit__ = NotHere("__aenter__", _WAITING), NotHere("__aexit__", _WAITING)
        __enter__, __exit__ = NotHere("__enter__", _WAITING), NotHere("__exit__", _WAITING)


def _start_leaving(limiter: AsyncLimiter, decision: Decision) -> None:
    asyncio.ensure_future(_leave_quietly(limiter, decision))  # noqa: RUF006 - what it awaits is kept


async def _leave_quietly(limiter: AsyncLimiter, decision: Decision) -> None:
    await loops.to_the_end(partial(_leave, limiter, decision))


async def _leave(limiter: AsyncLimiter, decision: Decision) -> None:
    try:
        await loops.give_back(limiter._limiter, decision)
    except StoreError:
        _log.warning("a slot could not be left: it is free once its longest time is over", exc_info=True)


class _Entering:
    """What ``AsyncConcurrency.slot`` returns, for an ``async with`` statement."""

    def __init__(self, concurrency: AsyncConcurrency, key: str | bytes, timeout: float | None) -> None:
        self._concurrency, self._key, self._timeout = concurrency, key, timeout
        self._entered: list[AsyncSlot] = []

    # A type checker shall go on telling of a with statement that is not async, and of a decorator.
    if not TYPE_CHECKING:

        def __call__(self, *_: object) -> None:
            raise TypeError(f"a slot decorates nothing: {_INSTEAD}, in the function")

        def __enter__(self) -> None:
            raise TypeError(f"a slot of an AsyncConcurrency is awaited: {_INSTEAD}")

        __exit__ = __await__ = __enter__

    async def __aenter__(self) -> AsyncSlot:
        slot = await self._concurrency.acquire(self._key, timeout=self._timeout)
        self._entered.append(slot)
        return slot

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        slot = self._entered.pop()
        if slot:
            slot._has_left = True
            await _leave_quietly(slot._limiter, slot._decision)


class AsyncConcurrency(Initialised):
    """At most ``limit`` at once for each key, as `overlimit.recipes.Concurrency`; its calls are awaited.

    Both share the slots of one name on one store. Options and errors are those of
    `overlimit.recipes.Concurrency`.
    """

    _set_last: ClassVar[str] = "_limiter"

    @checks_arguments()
    def __init__(
        self,
        limit: int,
        *,
        longest: Seconds = 60,
        store: str | Store = "memory://",
        clock: ClockLike | None = None,
        name: str | None = None,
    ) -> None:
        self._slots = Concurrency(limit, longest=longest, store=store, clock=clock, name=name)
        self._limiter = AsyncLimiter._of(self._slots._limiter)

    @checks_arguments(instead=OF_ACQUIRE)
    def slot(self, key: str | bytes, *, timeout: float | None = 0) -> _Entering:
        """Return what an ``async with`` statement enters and leaves.

        The block of ``async with c.slot("user:42", timeout=5):`` runs with a slot only. Entering raises
        RateLimitExceeded when none is free within ``timeout`` seconds, by default at once, and what
        ``acquire`` does. If the store fails when the block ends, that is logged and raises nothing.
        """
        timeout_us(timeout)
        return _Entering(self, key, timeout)

    @checks_arguments(instead=OF_ACQUIRE)
    async def acquire(self, key: str | bytes, *, timeout: float | None = 5.0) -> AsyncSlot:
        """Wait for a slot of the key, and take it; keep it while the work lasts.

        Arguments and errors are those of `overlimit.recipes.Concurrency.acquire`, whose callers wait in the
        same line. A task that is cancelled meanwhile holds nothing.
        """
        return AsyncSlot(
            self._limiter, admitted(await self._limiter._acquired((key,), 1, timeout, asks_early=True))
        )

    async def enter(self, key: str | bytes) -> AsyncSlot | None:
        """Take a slot of the key if one is free now, else return None; keep it while the work lasts.

        A task that is cancelled meanwhile takes none.
        Raises ValueError or TypeError for a wrong key, StoreError when the store cannot answer.
        """
        decision = await self._limiter._hit_or_refund(key)
        return AsyncSlot(self._limiter, decision) if decision else None

    async def in_use(self, key: str | bytes) -> int:
        """Return how many of the key's slots are taken now. Raises as ``enter`` does."""
        log = self._slots._log
        return log.limit - (await self._limiter.peek(key, cost=0)).remaining

    def __repr__(self) -> str:
        return f"Async{self._slots!r}"

    if not TYPE_CHECKING:
        __aenter__, __aexit__ = NotHere("__aenter__", _INSTEAD), NotHere("__aexit__", _INSTEAD)
