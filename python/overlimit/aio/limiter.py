"""The AsyncLimiter: a Limiter whose calls are awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from overlimit import _core
from overlimit._core import Decision
from overlimit.limiter import Limiter


class AsyncLimiter:
    """Decides as `Limiter` does, whose arguments and errors it has; its calls are awaited."""

    def __init__(self, limits: Any, **options: Any) -> None:
        self._limiter = Limiter(limits, **options)

    async def hit(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        return self._limiter.hit(*identifiers, cost=cost)

    async def peek(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        return self._limiter.peek(*identifiers, cost=cost)

    async def refund(self, decision: Decision, /) -> None:
        self._limiter.refund(decision)


async def hit_all(charges: Iterable[tuple[Any, ...]]) -> Decision:
    return _core.hit_all([(limiter._limiter, *rest) for limiter, *rest in charges])


async def peek_all(charges: Iterable[tuple[Any, ...]]) -> Decision:
    return _core.peek_all([(limiter._limiter, *rest) for limiter, *rest in charges])
