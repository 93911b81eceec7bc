"""Functions of the app, called where Django calls views: those that may block in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import async_to_sync, sync_to_async

from overlimit import _steps
from overlimit.http.callables import result_of
from overlimit.http.deciding.functions import may_block
from overlimit.http.deciding.steps import Call, Steps, run_async

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return what calls a function in the thread in which Django runs sync code of the request."""
    called: Callable[P, Awaitable[T]] = sync_to_async(function, thread_sensitive=True)
    return called


def run_in_thread(steps: Steps[T]) -> T:
    """Make calls one after the other in this thread, which waits for coroutine functions, too."""
    return _steps.run(steps, _make_now)


async def run_on_loop(steps: Steps[T], functions: Iterable[object]) -> T:
    """Make calls on the event loop, or in a thread if among the functions that they call one may block."""
    return await (in_thread(run_in_thread)(steps) if may_block(functions) else run_async(steps))


def _make_now(call: Call) -> Any:
    function: Any = call.function
    answer = call.now()
    if function is not None and function.waits:
        return async_to_sync(_answer)(answer)
    return result_of(function, answer)


async def _answer(coming: Awaitable[T]) -> T:
    return await coming
