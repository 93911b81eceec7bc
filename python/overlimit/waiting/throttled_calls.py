"""What the calls of a throttled function are charged, whoever waits for it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.errors import RateLimitExceeded
from overlimit.waiting.acquiring import key_of, timeout_us

if TYPE_CHECKING:
    from overlimit._core import Decision

CallIdentifier: TypeAlias = "str | bytes | Callable[..., str | bytes]"
"""Who is limited, or a function that a call's arguments are given to and that returns it."""

CallCost: TypeAlias = "int | Callable[..., int]"
"""What a call spends, or a function that a call's arguments are given to and that returns it."""

_T = TypeVar("_T", bound=Callable[..., Any])

_KINDS: tuple[tuple[str, Callable[[object], bool]], ...] = (
    ("a coroutine function", inspect.iscoroutinefunction),
    ("an async generator function", inspect.isasyncgenfunction),
    ("a generator function", inspect.isgeneratorfunction),
)


def takes_one_function(decorate: _T) -> _T:
    """Make a throttle's ``__call__`` say what to write where it is called with anything but one function.

    What was decorated without parentheses is a throttle, which its callers call with arguments of their own.
    """

    @functools.wraps(decorate)
    def checked(throttle: Any, *given: Any, **named: Any) -> Any:
        if len(given) != 1 or named:
            count = len(given) + len(named)
            raise _not_a_function("1 argument by name" if count == 1 else f"{count or 'no'} arguments")
        return decorate(throttle, *given)

    return cast(_T, checked)


class ThrottledCalls:
    """The identifiers, the cost and the timeout of a throttle; raises for wrong ones.

    It keeps nothing of a call, so that it can be used again, and by several threads or tasks at once.
    """

    def __init__(
        self,
        acquire: Callable[..., Any],
        identifiers: tuple[CallIdentifier, ...],
        cost: CallCost,
        timeout: float | None,
    ) -> None:
        if not identifiers:
            raise ValueError(
                "throttle must name at least one identifier, such as throttle('api.example.com')"
            )
        _check_decorates_nothing(*identifiers)
        for identifier in identifiers:
            check_identifier(identifier)
        check_cost(cost)
        timeout_us(timeout)
        self._acquire, self._timeout = acquire, timeout
        self._identifiers, self._cost = identifiers, cost
        self._depends_on_call = any(map(callable, (*identifiers, cost)))

    def _turn_of_call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what ``acquire`` answers of a call with these arguments."""

        def given(value: Any) -> Any:
            return value(*arguments, **options) if callable(value) else value

        identifiers, cost = self._identifiers, self._cost
        if self._depends_on_call:
            identifiers, cost = tuple(map(given, identifiers)), given(cost)
        return self._acquire(*identifiers, cost=cost, timeout=self._timeout)

    def _turn_of_block(self) -> Any:
        """Return what it answers of a with statement, which has no arguments."""
        if self._depends_on_call:
            raise TypeError(
                "a with statement has no call whose arguments a function could be given: write the "
                "identifiers and the cost themselves, as in with limiter.throttle('user:42', cost=2)"
            )
        return self._turn_of_call((), {})


def admitted(decision: Decision) -> Decision:
    """Return an admission; raise RateLimitExceeded for a refusal."""
    if not decision:
        raise RateLimitExceeded(decision)
    return decision


def name_of(function: Callable[..., object]) -> str:
    """Return what a message calls a function."""
    return getattr(function, "__qualname__", None) or short_repr(function)


def kind_of(function: object) -> str | None:
    """Say what a function is whose call does not do its work; None for all others, raises for no function."""
    if isinstance(function, classmethod | staticmethod):
        kind = type(function).__name__
        raise TypeError(f"throttle decorates the function itself: write @{kind} above @limiter.throttle(...)")
    if not callable(function):
        raise _not_a_function(short_repr(function))
    while isinstance(function, functools.partial):
        function = function.func
    own_call = (
        None if isinstance(function, type) else inspect.getattr_static(type(function), "__call__", None)
    )
    return next((kind for kind, is_one in _KINDS if is_one(function) or is_one(own_call)), None)


def _not_a_function(given: str) -> TypeError:
    return TypeError(
        "throttle decorates a function, as @limiter.throttle('api.example.com') above its def with an "
        f"identifier in parentheses, not {given}"
    )


def check_identifier(identifier: object) -> None:
    """Raise TypeError or ValueError for what is neither an identifier nor a plain function."""
    if callable(identifier):
        _check_is_plain("an identifier", identifier)
    elif not key_of(identifier):
        raise ValueError("an identifier must not be empty: name who is limited, such as 'user:42'")


def _check_decorates_nothing(identifier: object, *_: object) -> None:
    """Raise TypeError for a coroutine function, which can be no identifier, but is decorated now and then."""
    if callable(identifier) and (kind := kind_of(identifier)) is not None:
        raise TypeError(
            f"an identifier must be returned by a plain function, and {name_of(identifier)} is {kind}. To "
            "throttle it, write who is limited in parentheses: @limiter.throttle('api.example.com')"
        )


def check_cost(cost: object) -> None:
    """Raise TypeError or ValueError for what is neither a cost nor a plain function."""
    if callable(cost):
        _check_is_plain("cost", cost)
        return
    number = whole_number(cost)
    if number is None:
        raise TypeError(
            f"cost must be a whole number, or a function that returns one, not {short_repr(cost)}"
        )
    if number < 0:
        raise ValueError(f"cost must be a whole number from 0, not {number}")


def _check_is_plain(what: str, function: Callable[..., object]) -> None:
    kind = kind_of(function)
    if kind is not None:
        raise TypeError(f"{what} must be returned by a plain function, and {name_of(function)} is {kind}")
