"""What a decision waits for, apart from what it decides.

A decision is a generator of the calls to stores that it needs. Whoever runs it makes each of them, and sends
its answer back or throws its error in: `run` does that in this thread, and an async adapter by awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""Calls to stores, which may wait, one after the other; the result is known when all have been made."""


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
            except BaseException as error:  # also a cancellation
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_awaiting(steps: Steps[T]) -> T:
    """Make the calls one after the other, each of which returns an awaitable, and return the result."""
    try:
        call = next(steps)
        while True:
            try:
                answer = await call()
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
