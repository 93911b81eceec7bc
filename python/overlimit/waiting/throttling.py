"""Functions and blocks that wait for their turn: ``Limiter.throttle``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

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

_INSTEAD = {
    "a coroutine function": "write AsyncLimiter.throttle, which awaits its turn",
    "an async generator function": "write async with AsyncLimiter.throttle(...) in it",
    "a generator function": "write with limiter.throttle(...) in it (with an AsyncLimiter async with)",
}


class Throttle(ThrottledCalls):
    """Lets a function, or a with statement, begin when it is its turn; see ``Limiter.throttle``."""

    @takes_one_function
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Return the function whose calls wait for their turn; raise TypeError for one that is async."""
        kind = kind_of(function)
        if kind is not None:
            raise TypeError(
                f"Limiter.throttle cannot throttle {name_of(function)}, as calling {kind} does not run it: "
                f"{_INSTEAD[kind]}"
            )

        @functools.wraps(function)
        def throttled(*args: P.args, **kwargs: P.kwargs) -> R:
            admitted(self._turn_of_call(args, kwargs))
            return function(*args, **kwargs)

        return throttled

    def __enter__(self) -> Decision:
        return admitted(self._turn_of_block())

    # A type checker shall go on telling of a with statement that is async.
    if not TYPE_CHECKING:

        def __aenter__(self) -> None:
            raise TypeError(
                "a turn of a Limiter is waited for, not awaited: write async with AsyncLimiter(...).throttle("
                "...), of overlimit.aio, or with where there is no event loop"
            )

        __aexit__ = __aenter__

    def __exit__(self, *_: object) -> None:
        """Do nothing: the turn is spent, however the block ends."""
