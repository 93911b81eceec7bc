"""What a decision waits for, apart from what it decides.

A decision is a generator of the calls that it needs: to stores, and of the app's coroutine functions. Whoever
runs it makes each of them, and sends its answer back or throws its error in: `run` does that in this thread,
and `run_async` on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from overlimit import _core, _steps
from overlimit._core import PendingCall
from overlimit.http.callables import awaited_in, result_of

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """A call that may wait, to be made in one of two ways."""

    now: Callable[[], Any]
    """Returns the answer, for which this thread waits."""
    later: Callable[[], Any]
    """Returns the answer, or what an event loop awaits for it."""
    function: object = None
    """The function of the app that is called, if it is not a store."""
    arguments: tuple[Any, ...] = ()
    """What the function is called with, the request last."""


def asking(operation: Callable[P, object], /, *arguments: P.args, **keywords: P.kwargs) -> Call:
    """Return the call of an operation of the core, such as ``_core.Limiter.refund``."""
    now = partial(operation, *arguments, **keywords)
    return Call(now, partial(_core._later, operation, *arguments, **keywords))


Steps: TypeAlias = _steps.Steps[Call, T]
"""Calls that may wait, one after the other; the result is known when all have been made."""


def run(steps: Steps[T]) -> T:
    """Make the calls one after the other in this thread, and return the result."""
    return _steps.run(steps, _make_now)


async def run_async(steps: Steps[T]) -> T:
    """Make the calls one after the other on the event loop, and return the result."""
    return await _steps.run_async(steps, make_later)


def _make_now(call: Call) -> Any:
    return result_of(call.function, call.now())


async def make_later(call: Call) -> Any:
    """Make a call on the event loop, and return its answer."""
    answer = call.later()
    if type(answer) is PendingCall:
        return await awaited(answer)
    return await answer if hasattr(type(answer), "__await__") else answer  # of a coroutine function


async def awaited(call: PendingCall) -> Any:
    """Return or raise what a store answers to a call that has to wait."""
    from overlimit.aio import loops  # which loads asyncio

    return await loops.answer(call)


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


def awaiting(functions: Iterable[object], *arguments: Any) -> Steps[None]:
    """Await the coroutine functions among these, so that they can be called with the same arguments."""
    for function in awaited_in(functions):
        if function.is_kept(arguments):
            continue
        try:
            call = partial(function.function, *arguments)
            returned = yield Call(call, call, function, arguments)
        except Exception as error:
            function.keep(arguments, None, error)
        else:
            function.keep(arguments, returned, None)
