"""Several AsyncLimiters in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from overlimit import _core, _steps
from overlimit._messages.arguments import expected_async_limiter
from overlimit.aio import loops
from overlimit.aio.acquiring import task_caller
from overlimit.aio.limiter import AsyncLimiter
from overlimit.budgets import MOST_ENTRIES, choosing, entries_in, entries_on_one_clock, note_refusal
from overlimit.waiting.acquiring import Caller, Charges, Subject, acquiring_first, subjects_in, urgency_of

if TYPE_CHECKING:
    from overlimit._core import Decision

AsyncCharge: TypeAlias = "tuple[AsyncLimiter, str | bytes] | tuple[AsyncLimiter, str | bytes, int]"
"""What `hit_all` takes: a limiter, an identifier and, if it is not 1, a cost."""

AsyncEntry: TypeAlias = "AsyncCharge | list[AsyncCharge]"
"""What `hit_first` takes: a charge, or a list of those that must admit together."""


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


async def hit_first(entries: Iterable[AsyncEntry], /) -> Decision:
    """Charge the first of several entries that admits the call, and no other; see `overlimit.hit_first`."""
    own = entries_in(_entries(entries, "hit_first"), "hit_first")
    return await _steps.await_calls(choosing(own, _try))


async def acquire_all(
    charges: Iterable[AsyncCharge],
    timeout: float | None = 5.0,
    *,
    priority: int = 0,
    patience: float | None = None,
) -> Decision:
    """Wait until several policies allow a call at once, charge all of it, and wait for its delay to be over.

    It is to `hit_all` what `AsyncLimiter.acquire` is to ``hit``; see `overlimit.acquire_all`.
    """
    own = _core._checked_charges(_charges(charges, "acquire_all"))
    wait = _wait(own, lambda left: _core._later(_core._hit_all_within, own, left))
    return await _steps.await_calls(acquiring_first([wait], timeout, urgency_of(priority, patience)))


async def acquire_first(
    entries: Iterable[AsyncEntry],
    timeout: float | None = 5.0,
    *,
    priority: int = 0,
    patience: float | None = None,
) -> Decision:
    """Wait until the first of several entries admits the call, charge it and no other.

    It is to `hit_first` what `AsyncLimiter.acquire` is to ``hit``; see `overlimit.acquire_first`.
    """
    own = entries_on_one_clock(_entries(entries, "acquire_first"))
    waits = [
        _wait(charges, partial(_trying, charges, place), partial(note_refusal, charges))
        for place, charges in enumerate(own)
    ]
    return await _steps.await_calls(acquiring_first(waits, timeout, urgency_of(priority, patience)))


def _trying(charges: Charges, place: int, left: float) -> Any:
    return _core._later(_core._try_all, charges, left, place)


def _wait(
    charges: Charges, hit: Callable[[float], Any], note_refusal: Callable[[Decision], object] = bool
) -> tuple[list[Subject], Caller]:
    """Return whom a task waits for that names these charges, and how it asks."""

    def peek(left: float) -> Any:
        return _core._later(_core._peek_all_within, charges, left)

    subjects = subjects_in(charges)
    return subjects, task_caller(subjects, hit, peek, note_refusal)


async def _try(charges: Charges, patience: float | None, place: int) -> Decision:
    return await loops.answer(_core._later(_core._try_all, charges, patience, place))


def _entries(given: Any, function: str) -> Any:
    """Return entries as `overlimit.hit_first` takes them; what is none is for that to refuse."""
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        return given
    return [
        _charge(each, function) if isinstance(each, tuple) else _charges(each, function)
        for each in islice(given, MOST_ENTRIES + 1)
    ]


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
