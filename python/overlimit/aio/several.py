"""Several AsyncLimiters in one call."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from overlimit import _core
from overlimit._messages.arguments import expected_async_limiter
from overlimit.aio import loops
from overlimit.aio.acquiring import acquired
from overlimit.aio.limiter import AsyncLimiter
from overlimit.waiting.acquiring import subjects_in

if TYPE_CHECKING:
    from overlimit._core import Decision

AsyncCharge: TypeAlias = "tuple[AsyncLimiter, str | bytes] | tuple[AsyncLimiter, str | bytes, int]"
"""What `hit_all` takes: a limiter, an identifier and, if it is not 1, a cost."""


async def hit_all(charges: Iterable[AsyncCharge], /) -> Decision:
    """Decide several policies at once, all or nothing; see `overlimit.hit_all`.

    ``charges`` are tuples (limiter, identifier[, cost]), of limiters on one store.
    """
    own = _charges(charges, "hit_all")
    return await loops.answer(_core._later(_core._hit_all_within, own, None))


async def peek_all(charges: Iterable[AsyncCharge], /) -> Decision:
    """Return the Decision that `hit_all` would give now; nothing is charged."""
    own = _charges(charges, "peek_all")
    return await loops.answer(_core._later(_core._peek_all_within, own, None))


async def acquire_all(charges: Iterable[AsyncCharge], timeout: float | None = 5.0) -> Decision:
    """Wait until several policies allow a call at once, charge all of it, and wait for its delay to be over.

    It is to `hit_all` what `AsyncLimiter.acquire` is to ``hit``; see `overlimit.acquire_all`.
    """
    own = _core._checked_charges(_charges(charges, "acquire_all"))
    return await acquired(
        subjects_in(own),
        timeout,
        lambda patience: _core._later(_core._hit_all_within, own, patience),
        lambda patience: _core._later(_core._peek_all_within, own, patience),
    )


def _charges(given: Iterable[AsyncCharge], function: str) -> Any:
    """Return charges as the core takes them; what is none is for the core to refuse."""
    if not hasattr(given, "__iter__"):
        return given
    return [_charge(each, function) for each in islice(given, _core.MAX_CHARGES + 1)]


def _charge(given: Any, function: str) -> Any:
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        return given
    limiter, *others = given
    if not isinstance(limiter, AsyncLimiter):
        raise TypeError(expected_async_limiter(limiter, function))
    return limiter._limiter, *others
