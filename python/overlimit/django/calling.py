"""Functions of the app, called where Django calls views, with a user that they may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.utils.functional import LazyObject, empty

from overlimit import _steps
from overlimit.django.request import http_request
from overlimit.http.callables import result_of
from overlimit.http.deciding.functions import may_block
from overlimit.http.deciding.steps import Call, Steps, make_later

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Return what calls a function in the thread in which Django runs sync code of the request."""
    called: Callable[P, Awaitable[T]] = sync_to_async(function, thread_sensitive=True)
    return called


def run_in_thread(steps: Steps[T]) -> T:
    """Make calls one after the other in this thread, which waits for coroutine functions, too."""
    return _steps.run(steps, _make_now)


async def run_async(steps: Steps[T]) -> T:
    """Make calls one after the other on the event loop."""
    return await _steps.run_async(steps, _make_later)


async def run_on_loop(steps: Steps[T], functions: Iterable[object]) -> T:
    """Make calls on the event loop, or in a thread if among the functions that they call one may block."""
    return await (in_thread(run_in_thread)(steps) if may_block(functions) else run_async(steps))


def _make_now(call: Call) -> Any:
    function: Any = call.function
    if function is not None and function.waits:
        return async_to_sync(_make_later)(call)
    return result_of(function, call.now())


async def _make_later(call: Call) -> Any:
    if call.function is not None:
        await load_user(call.arguments[-1])
    return await make_later(call)


async def load_user(given: Any) -> None:
    """Have ``request.user`` at hand, since code on an event loop may not fetch it from the database."""
    user = getattr(http_request(given), "user", None)
    if isinstance(user, LazyObject) and user._wrapped is empty:
        await in_thread(lambda: getattr(user, "pk", None))()
