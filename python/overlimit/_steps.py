"""Work that waits now and then, apart from how it waits.

It is a generator of what must be waited for. Whoever runs it does each of these in a way of its own, in a
thread or on an event loop, and sends the answer back or throws the error in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")

Steps: TypeAlias = Generator[S, Any, T]
"""What must be waited for, one after the other; the result is known when all has been done."""


def run(steps: Steps[S, T], do: Callable[[S], Any]) -> T:
    """Do all of it in this thread, and return the result."""
    try:
        step = next(steps)
        while True:
            try:
                answer = do(step)
            except BaseException as error:  # also the timeout of a greenlet
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    except BaseException:  # also Ctrl-C between two of them
        steps.close()
        raise


async def run_async(steps: Steps[S, T], do: Callable[[S], Awaitable[Any]]) -> T:
    """Await all of it, and return the result."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await do(step)
            except GeneratorExit:  # nothing can be awaited any more
                raise
            except BaseException as error:  # also a cancellation
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    except BaseException:
        steps.close()
        raise


def run_calls(steps: Steps[Callable[[], Any], T]) -> T:
    """Call all of it, one after the other, and return the result."""
    return run(steps, _called)


async def await_calls(steps: Steps[Callable[[], Awaitable[Any]], T]) -> T:
    """Await what each call returns, one after the other, and return the result."""
    return await run_async(steps, _called)


def _called(step: Callable[[], Any]) -> Any:
    return step()
