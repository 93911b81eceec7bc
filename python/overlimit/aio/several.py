"""Several AsyncLimiters in one call."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from overlimit import _core
from overlimit.aio import loops
from overlimit.aio.acquiring import acquired
from overlimit.aio.limiter import AsyncLimiter
from overlimit.limiter import Limiter
from overlimit.stores import MemoryStore
from overlimit.waiting.acquiring import subjects_in

if TYPE_CHECKING:
    from overlimit._core import Decision

AsyncCharge: TypeAlias = "tuple[AsyncLimiter, str | bytes] | tuple[AsyncLimiter, str | bytes, int]"
"""What `hit_all` takes: a limiter, an identifier and, if it is not 1, a cost."""


async def hit_all(charges: Iterable[AsyncCharge], /) -> Decision:
    """Decide several policies at once, all or nothing; see `overlimit.hit_all`.

    ``charges`` are tuples (limiter, identifier[, cost]), of limiters on one store.
    """
    own = _charges(charges)
    if _wait(own):
        return cast("Decision", await loops.answer(_core._hit_all_later(own, None)))
    return _core.hit_all(own)


async def peek_all(charges: Iterable[AsyncCharge], /) -> Decision:
    """Return the Decision that `hit_all` would give now; nothing is charged."""
    own = _charges(charges)
    if _wait(own):
        return cast("Decision", await loops.answer(_core._peek_all_later(own, None)))
    return _core.peek_all(own)


async def acquire_all(charges: Iterable[AsyncCharge], timeout: float | None = 5.0) -> Decision:
    """Wait until several policies allow a call at once, charge all of it, and wait for its delay to be over.

    It is to `hit_all` what `AsyncLimiter.acquire` is to ``hit``; see `overlimit.acquire_all`.
    """
    own = _core._checked_charges(_charges(charges))
    limiter: Limiter = own[0][0]
    waits = _wait(list(own))
    hit, peek = (
        (_core._hit_all_later, _core._peek_all_later)
        if waits
        else (_core._hit_all_within, _core._peek_all_within)
    )
    return await acquired(
        subjects_in(own),
        timeout,
        partial(hit, own),
        partial(peek, own),
        AsyncLimiter._of(limiter).refund,
    )


def _charges(given: Iterable[AsyncCharge]) -> Any:
    """Return charges as the core takes them; what is none is for the core to refuse."""
    if not hasattr(given, "__iter__"):
        return given
    return [
        (getattr(each[0], "_limiter", each[0]), *each[1:]) if isinstance(each, tuple) and each else each
        for each in islice(given, _core.MAX_CHARGES + 1)
    ]


def _wait(charges: Any) -> bool:
    first = charges[0][0] if isinstance(charges, list) and charges and charges[0] else None
    return isinstance(first, Limiter) and not isinstance(first.store, MemoryStore)
