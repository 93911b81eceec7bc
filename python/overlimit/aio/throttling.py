"""Coroutine functions and async blocks that wait for their turn: ``AsyncLimiter.throttle``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from overlimit.waiting.throttled_calls import (
    ThrottledCalls,
    admitted,
    kind_of,
    name_of,
    takes_one_function,
)

if TYPE_CHECKING:
    from overlimit._core import Decision

P = ParamSpec("P")
R = TypeVar("R")

_ASYNC = "a coroutine function"
_INSTEAD = "write async with limiter.throttle(...) in it, before what is limited"


class AsyncThrottle(ThrottledCalls):
    """Lets a coroutine function, or an async with statement, begin when it is its turn."""

    @takes_one_function
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return the function whose calls wait for their turn; raise TypeError unless it is to be awaited."""
        kind = kind_of(function)
        if kind != _ASYNC:
            what = f"{kind}: {_INSTEAD}" if kind else "not async: write Limiter.throttle, or async def"
            raise TypeError(f"AsyncLimiter.throttle cannot throttle {name_of(function)}, which is {what}")

        @functools.wraps(function)
        async def throttled(*args: P.args, **kwargs: P.kwargs) -> R:
            admitted(await self._turn_of_call(args, kwargs))
            return await function(*args, **kwargs)

        return throttled

    async def __aenter__(self) -> Decision:
        return admitted(await self._turn_of_block())

    # A type checker shall go on telling of a with statement that is not async.
    if not TYPE_CHECKING:

        def __enter__(self) -> None:
            raise TypeError("a turn of an AsyncLimiter is awaited: write async with limiter.throttle(...)")

        __exit__ = __enter__

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the turn is spent, however the block ends."""
