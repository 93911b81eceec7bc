"""What a decision waits for, apart from what it decides.

A decision is a generator of the calls to stores that it needs. Whoever runs it makes each of them, and sends
its answer back or throws its error in: `run` does that in this thread, `run_async` by awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from overlimit import _steps

T = TypeVar("T")


class Call(NamedTuple):
    """A call to a store, to be made in one of two ways."""

    now: Callable[[], Any]
    """Returns the answer, for which this thread waits."""
    later: Callable[[], Any]
    """Prepares the call for an event loop."""
    waits: bool
    """Whether the store may wait, so that an event loop awaits the answer."""


Steps: TypeAlias = _steps.Steps[Call, T]
"""Calls to stores, which may wait, one after the other; the result is known when all have been made."""


def run(steps: Steps[T]) -> T:
    """Make the calls one after the other in this thread, and return the result."""
    return _steps.run(steps, _make_now)


async def run_async(steps: Steps[T]) -> T:
    """Make the calls one after the other on the event loop, and return the result."""
    return await _steps.run_async(steps, _make_later)


def _make_now(call: Call) -> Any:
    return call.now()


async def _make_later(call: Call) -> Any:
    from overlimit.aio import loops

    return await loops.answer(call.later()) if call.waits else call.now()


def all_of(several: Iterable[Steps[None]]) -> Steps[None]:
    """Make the calls of all, even if some fail; then raise the first exception."""
    raised: Exception | None = None
    for steps in several:
        try:
            yield from steps
        except Exception as error:
            raised = raised or error
    if raised is not None:
        raise raised
