"""What a decision waits for, apart from what it decides.

A decision is a generator of the calls that it needs: to stores, and of the app's coroutine functions. Whoever
runs it makes each of them, and sends its answer back or throws its error in: `run` does that in this thread,
and `run_async` on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeVar

from overlimit.http.callables import awaited_in

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Calls that may wait, one after the other; the result is known when all have been made."""


def run(steps: Steps[T]) -> T:
    """Make the calls one after the other, and return the result."""
    try:
        call = next(steps)
        while True:
            try:
                answer = call()
            except BaseException as error:  # also the timeout of a greenlet
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(steps: Steps[T]) -> T:
    """Make the calls one after the other on the event loop, and return the result."""
    try:
        call = next(steps)
        while True:
            try:
                answer = call()
                if hasattr(type(answer), "__await__"):  # of a coroutine function
                    answer = await answer
            except BaseException as error:  # also a cancellation
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


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
            returned = yield partial(function.function, *arguments)
        except Exception as error:
            function.keep(arguments, None, error)
        else:
            function.keep(arguments, returned, None)
