"""The AsyncLimiter: a Limiter whose calls are awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from overlimit import _core
from overlimit._core import Decision
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import OPTIONS_OF_THROTTLE
from overlimit.aio.throttling import AsyncThrottle
from overlimit.limiter import Limiter
from overlimit.waiting.throttled_calls import CallCost, CallIdentifier

if TYPE_CHECKING:
    from overlimit.aio.throttling import Acquires


class AsyncLimiter:
    """Decides as `Limiter` does, whose arguments and errors it has; its calls are awaited."""

    def __init__(self, limits: Any, **options: Any) -> None:
        self._limiter = Limiter(limits, **options)

    async def hit(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        return self._limiter.hit(*identifiers, cost=cost)

    async def peek(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        return self._limiter.peek(*identifiers, cost=cost)

    @checks_arguments(synonyms=OPTIONS_OF_THROTTLE)
    def throttle(
        self, *identifiers: CallIdentifier, cost: CallCost = 1, timeout: float | None = None
    ) -> AsyncThrottle:
        """Have a coroutine function, or what an async with statement holds, wait for its turn each time.

        As ``Limiter.throttle``, whose arguments and errors it has: ``@limiter.throttle("api.example.com")``
        above an ``async def``, or ``async with limiter.throttle("api.example.com") as decision:``. Raises
        TypeError where it decorates a function that is not awaited, or an async generator function.
        """
        return AsyncThrottle(cast("Acquires", self), identifiers, cost, timeout)

    async def refund(self, decision: Decision, /) -> None:
        self._limiter.refund(decision)


async def hit_all(charges: Iterable[tuple[Any, ...]]) -> Decision:
    return _core.hit_all([(limiter._limiter, *rest) for limiter, *rest in charges])


async def peek_all(charges: Iterable[tuple[Any, ...]]) -> Decision:
    return _core.peek_all([(limiter._limiter, *rest) for limiter, *rest in charges])
