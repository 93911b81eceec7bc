"""The AsyncLimiter: a Limiter whose calls are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from overlimit import _core, waiting
from overlimit._logging.limiters import announced
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import (
    OF_ASYNC_LIMITER,
    OPTIONS_OF_LIMITER,
    OPTIONS_OF_THROTTLE,
    TIMEOUT_OF_STORE,
    HintingType,
    add_hints,
    there,
)
from overlimit.aio import loops
from overlimit.aio.acquiring import acquired
from overlimit.aio.throttling import AsyncThrottle
from overlimit.clocks import ClockLike
from overlimit.decisions import Decisions, as_column
from overlimit.limiter import IdentifierRows, Limiter, OnError
from overlimit.limits.penalty import Penalty
from overlimit.limits.quantities import Rate, Seconds, micros
from overlimit.stores import StoreLike
from overlimit.waiting.acquiring import Attempt, attempted, subjects_of
from overlimit.waiting.queues import USUAL, Urgency
from overlimit.waiting.throttled_calls import CallCost, CallIdentifier

if TYPE_CHECKING:
    from overlimit._core import Decision, Store
    from overlimit.limits import Limit, LimitsLike
    from overlimit.limits_file import FilePath
    from overlimit.statistics import LimiterStats

_ROWS_AT_ONCE = 5_000
"""So many rows of ``hit_many`` are read on the event loop; more are read in another thread."""


class AsyncLimiter(metaclass=HintingType):
    """Decides as `Limiter` does, whose options, answers and errors it has; its calls are awaited.

    On memory, a call is done without a switch to another task. On a store that waits, such as Redis, all
    tasks of an event loop share one connection to a server, and their calls are sent together; deadlines, the
    breaker, sentinels, clusters, TLS and ``on_error`` are as for threads. A limiter may be used on several
    event loops, which have a connection each.

    An AsyncLimiter and a `Limiter` of one name on one store are one policy.

    Notes
    -----
    A task that is cancelled during a call gets its CancelledError at once. If nothing of the call was sent by
    then, nothing is charged; otherwise it is unknown whether it was charged, as after a timeout.

    Building one connects to nothing, and needs no event loop. Raises as `Limiter` does.
    """

    @checks_arguments(
        synonyms=OPTIONS_OF_LIMITER,
        instead={
            "key": "write await limiter.hit('user:42'), which takes the identifier of each call",
            "burst": "write it into the limits, as '20/minute burst 60'",
            "timeout": TIMEOUT_OF_STORE,
        },
        hint="write options by name, as name='login', several limits as one list, and 10 in 60 seconds as "
        "the tuple (60, 10)",
    )
    def __init__(
        self,
        limits: LimitsLike,
        *,
        name: str | None = None,
        store: StoreLike = "memory://",
        algorithm: str | None = None,
        penalty: Penalty | None = None,
        clock: ClockLike | None = None,
        on_error: OnError = "raise",
        local_share: Rate = 1.0,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> None:
        limiter = Limiter(
            limits,
            name=name,
            store=store,
            algorithm=algorithm,
            penalty=penalty,
            clock=clock,
            on_error=on_error,
            local_share=local_share,
            on_decision=on_decision,
        )
        self._set(limiter)

    @classmethod
    def from_file(cls, path: FilePath, policy: str, **options: Any) -> AsyncLimiter:
        """Return a limiter of a policy in a file, updated with it, as `Limiter.from_file` does."""
        return cls._of(Limiter.from_file(path, policy, **options))

    @classmethod
    def _of(cls, limiter: Limiter) -> AsyncLimiter:
        """Return one whose calls are those of a limiter."""
        made = cls.__new__(cls)
        made._set(limiter)
        return made

    def _set(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._waits = limiter.store.waits

    @property
    def name(self) -> str | None:
        """The policy's name, which is part of the key, or None."""
        return self._limiter.name

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits, in the order given."""
        return self._limiter.limits

    @property
    def store(self) -> Store:
        """The store that decides."""
        return self._limiter.store

    @property
    def clock(self) -> Any:
        """The clock, or None for the store's own."""
        return self._limiter.clock

    @property
    def penalty(self) -> Penalty | None:
        """The penalty, or None."""
        return self._limiter.penalty

    @property
    def on_error(self) -> OnError:
        """What a call answers when the store fails."""
        return self._limiter.on_error

    @property
    def on_decision(self) -> Callable[[Decision], object] | None:
        """Who is told of every decision, or None."""
        return self._limiter.on_decision

    @property
    def local_share(self) -> int | float | Fraction:
        """What part of its limits this process grants with ``on_error="local"``."""
        return self._limiter.local_share

    async def hit(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Decide whether these identifiers may spend this cost, and charge it if they may; see `Limiter`."""
        if self._waits:
            return await loops.answer(self._limiter._hit_later(*identifiers, cost=cost))
        return self._limiter.hit(*identifiers, cost=cost)

    async def _hit_or_refund(self, *identifiers: str | bytes) -> Decision:
        """Hit, and refund it if the task is cancelled meanwhile."""
        return await loops.answer_or_refund(self._limiter._hit_later(*identifiers), self._limiter)

    async def peek(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Return the Decision that ``hit`` would give now; nothing is charged."""
        return await loops.answer(self._limiter._peek_later(*identifiers, cost=cost))

    async def acquire(
        self,
        *identifiers: str | bytes,
        cost: int = 1,
        timeout: float | None = 5.0,
        priority: int = 0,
        patience: float | None = None,
    ) -> Decision:
        """Wait until these identifiers may spend this cost, charge it, and wait for its delay to be over.

        First come, first served among the tasks and threads of this process that acquire of a limiter;
        whoever waits delays nobody else's hit. An unchecked refusal does not throttle: see `throttle`.
        Arguments, answer and errors are those of `Limiter.acquire`.

        A task that is cancelled meanwhile holds nothing: what it was granted is refunded.
        """
        urgency = waiting.urgency_of(priority, patience)
        attempt = attempted(self._limiter, identifiers, cost, timeout)
        if attempt is not None and attempt.needs_no_wait:
            return attempt.decision
        return await self._acquired(identifiers, cost, timeout, attempt, urgency)

    async def _acquired(
        self,
        identifiers: tuple[str | bytes, ...],
        cost: int,
        timeout: float | None,
        attempt: Attempt | None = None,
        urgency: Urgency = USUAL,
        *,
        asks_early: bool = False,
    ) -> Decision:
        """Wait as ``acquire`` does, or as ``Caller.asks_early`` says."""
        limiter = self._limiter
        return await acquired(
            subjects_of(limiter, identifiers, cost),
            timeout,
            lambda patience: limiter._hit_later(*identifiers, cost=cost, patience=patience),
            lambda patience: limiter._peek_later(*identifiers, cost=cost, patience=patience),
            attempt,
            urgency,
            asks_early=asks_early,
        )

    async def charge(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Charge this cost whatever is left, and say whether ``hit`` would have admitted it."""
        return await loops.answer(_core._later(_core.Limiter.charge, self._limiter, *identifiers, cost=cost))

    async def hit_many(
        self, identifiers: IdentifierRows, cost: Any = 1, *, timeout: float | None = None
    ) -> Decisions:
        """Decide many independent calls, each as ``hit`` would, in the order given; see `Limiter.hit_many`.

        Other tasks run meanwhile. A task that is cancelled leaves the calls that it has not made yet.
        """
        return announced(self._limiter, await self._decide_many(identifiers, cost, timeout, is_peek=False))

    async def peek_many(
        self, identifiers: IdentifierRows, cost: Any = 1, *, timeout: float | None = None
    ) -> Decisions:
        """Return what ``peek`` would for each of many calls; nothing is charged."""
        return await self._decide_many(identifiers, cost, timeout, is_peek=True)

    async def _decide_many(
        self, identifiers: object, cost: object, timeout: float | None, *, is_peek: bool
    ) -> Decisions:
        def read() -> _core.ManyDecisions:
            costs = as_column(cost, "cost") if hasattr(cost, "__iter__") else cost
            rows = as_column(identifiers, "identifiers")
            return _core.ManyDecisions(self._limiter, rows, costs, is_peek, timeout)

        is_short = isinstance(identifiers, (list, tuple)) and len(identifiers) <= _ROWS_AT_ONCE
        many = read() if is_short else await asyncio.to_thread(read)
        while (step := many._next_step()) is not None:
            await loops.answer(step)
            if not self._waits:
                await asyncio.sleep(0)
        return Decisions(self.limits, many)

    @checks_arguments(synonyms=OPTIONS_OF_THROTTLE)
    def throttle(
        self, *identifiers: CallIdentifier, cost: CallCost = 1, timeout: float | None = None
    ) -> AsyncThrottle:
        """Have a coroutine function, or what an async with statement holds, wait for its turn each time.

        As ``Limiter.throttle``, whose arguments and errors it has: ``@limiter.throttle("api.example.com")``
        above an ``async def``, or ``async with limiter.throttle("api.example.com") as decision:``. Raises
        TypeError where it decorates a function that is not awaited, or an async generator function.
        """
        return AsyncThrottle(self.acquire, identifiers, cost, timeout)

    @checks_arguments(
        instead={"cost": "write await limiter.settle(decision, cost)"},
        hint="write await limiter.settle(decision, cost), with what the call cost in the end",
    )
    async def refund(self, decision: Decision, /) -> None:
        """Give back what a decision charged, once, where it was charged; see `Limiter.refund`."""
        await loops.answer(_core._later(_core.Limiter.refund, self._limiter, decision))
        waiting.wake_after_refund(self.store, decision)

    async def settle(self, decision: Decision, /, cost: int) -> Decision:
        """Make an admitted call cost what it turned out to cost; see `Limiter.settle`."""
        settled = await loops.answer(_core._later(_core.Limiter.settle, self._limiter, decision, cost))
        waiting.wake_after_refund(self.store, decision)
        return settled

    async def reset(self, *identifiers: str | bytes) -> None:
        """Forget everything of these identifiers in this policy, locks too; see `Limiter.reset`."""
        await loops.answer(_core._later(_core.Limiter.reset, self._limiter, *identifiers))
        waiting.wake_waiters(self.store, identifiers)

    async def reset_all(self) -> None:
        """Forget everything of all identifiers in this policy, locks and levels too.

        Other calls may come in between. Memory is swept in another thread, which goes on if the task is
        cancelled.
        """
        if self.store._has_connections:
            await loops.answer(_core._later(_core.Limiter.reset_all, self._limiter))
            waiting.wake_waiters(self.store)
        else:
            await asyncio.to_thread(self._limiter.reset_all)

    @checks_arguments()
    async def lock(self, identifier: str | bytes, /, seconds: Seconds) -> None:
        """Refuse an identifier for this many seconds from now; see `Limiter.lock`."""
        await loops.answer(
            _core._later(_core.Limiter._lock, self._limiter, identifier, micros(seconds, "seconds"))
        )
        waiting.wake_waiters(self.store, [identifier])

    async def unlock(self, identifier: str | bytes, /) -> None:
        """Lift the lock of an identifier; what was counted stays. See `Limiter.unlock`."""
        await loops.answer(_core._later(_core.Limiter.unlock, self._limiter, identifier))
        waiting.wake_waiters(self.store, [identifier])

    async def update(self, limits: LimitsLike) -> None:
        """Change the limits while calls go on; those under way finish with the limits they began with."""
        self._limiter.update(limits)

    def with_limits(self, limits: LimitsLike) -> AsyncLimiter:
        """Return the limiter of the same counts and options under other limits; see `Limiter.with_limits`.

        It asks nobody, so it is not awaited: ``await limiter.with_limits("200/minute").hit("user:42")``.
        """
        return self._of(self._limiter.with_limits(limits))

    async def ping(self, timeout: float | None = None) -> float:
        """Ask whoever keeps the counts for an answer, and return the seconds it took; see `Store.ping`.

        On Redis it goes by the connection of the event loop.
        """
        return await loops.answer(_core._later(_core.Limiter._ping, self._limiter, timeout))

    async def stats(self) -> LimiterStats:
        """Return what this limiter has counted; see `Limiter.stats`. The breaker is the event loop's."""
        return await loops.answer(_core._later(_core.Limiter.stats, self._limiter))

    async def close(self) -> None:
        """Close the connections that this event loop has for the store; a later call opens new ones.

        The limiters of one server share them. Those that a loop leaves open are closed with the loop.
        """
        await loops.answer(_core._later(_core.Limiter._close, self._limiter))

    def __dir__(self) -> list[str]:
        return there(type(self), super().__dir__())

    def __repr__(self) -> str:
        return f"Async{self._limiter!r}"

    def _repr_html_(self) -> str:
        return self._limiter._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (self._limiter,)


add_hints(AsyncLimiter, OF_ASYNC_LIMITER)
