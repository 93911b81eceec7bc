"""What ``limiter.limit`` makes: limits that stay on a function, or that a dependency stands for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import APIRouter, FastAPI
from fastapi.params import Depends
from starlette.requests import HTTPConnection

from overlimit.fastapi.option_dependencies import taking_dependencies
from overlimit.http.asgi.conversations import CONVERSATION
from overlimit.http.asgi.requests import kept_in
from overlimit.http.callables import (
    asked_once,
    function_name,
    mark_as_coroutine_function,
)
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, described
from overlimit.http.options.limit_options import (
    AnyLimits,
    LimitKeywords,
    LimitOptions,
    ReadLimits,
    SharedKeywords,
    ValidationKeyword,
    check_limits_are_given,
    limit_options,
)
from overlimit.http.parameters import check_takes_no_key
from overlimit.http.rules.app_rate_limits import RateLimitHandle
from overlimit.http.rules.applied_limits import APPLIED_LIMITS, AppliedLimit, check_target, leave_on

F = TypeVar("F", bound=Callable[..., Any])

_GIVEN_BY_FASTAPI = "given_by_fastapi"
"""The parameter of a dependency, which nobody is to give by hand."""


class _NotCalled(Depends):
    """Has FastAPI say what to write where it is given ``limiter.dependency`` itself, not what that returns.

    It would take the parameters of that method for those of a request, and asks this for a dependency.
    """

    def __init__(self) -> None:
        """Leave out what others have."""

    @property
    def dependency(self) -> NoReturn:
        raise TypeError(
            "Depends(...) was given a method that takes limits first: write Depends(limiter.dependency("
            "'5/minute'))"
        )


Limits = Annotated[AnyLimits, _NotCalled()]
"""The limits of a decorator or of a dependency."""


class SharedRouteKeywords(SharedKeywords, ValidationKeyword, total=False):
    """The options of a limit that spans routes."""


class RouteKeywords(LimitKeywords, ValidationKeyword, total=False):
    """The options of a limit that does not span routes."""


OPTIONS = described(RouteKeywords)
"""The options of one limit."""

BEFORE_VALIDATION = OPTIONS["before_validation"]
"""What a RateLimit may say for all routes, too."""


def taken_functions(options: dict[str, Any], known: dict[str, Option]) -> dict[str, Any]:
    """Return options whose functions get the request if they take it, and what they depend on.

    They may be coroutine functions.
    """
    taken = dict(options)
    for name in options.keys() & known.keys():
        kind, value = known[name].kind, options[name]
        if kind in (kinds.LIMITS, kinds.LIMITS_OF_ALL):
            check_takes_no_key(name, value)
        found = taking_dependencies(value, kind.own_arguments, kind.of)
        taken[name] = asked_once(found, kept_in) if name.endswith("exempt_when") else found
    return taken


def route_options(
    value: AnyLimits, keywords: RouteKeywords, *, read: ReadLimits, is_shared: bool = False
) -> LimitOptions:
    """Check the options of a limit, as `limit_options` does; ``read`` reads limits."""
    check_limits_are_given(value)
    taken = taken_functions({"limits": value, **keywords}, {**OPTIONS, "limits": OPTIONS["meta_limits"]})
    limits = taken.pop("limits")
    return limit_options(limits, taken, OPTIONS, read=read, arguments=1, is_shared=is_shared)


class LimitDecorator:
    """Limits to be put on path functions, or on functions that these depend on."""

    def __init__(
        self,
        options: LimitOptions,
        handle: RateLimitHandle,
        watch: Callable[[], None],
        value: object = None,
    ) -> None:
        """Take checked options; ``watch`` has apps noticed that lack a RateLimit."""
        self._options, self._handle, self._watch = options, handle, watch
        if callable(value):
            handle.idle[self] = value

    def __call__(self, target: F) -> F:
        """Leave the limits on a function, which stays as it is."""
        _check_target(target)
        self._handle.idle.pop(self, None)
        self._watch()
        # A decorator may be kept and used for several functions, and each gets an applied limit of its own.
        leave_on(target, AppliedLimit(self._options, self._handle))
        self._handle.decorated.append(target)
        self._handle.note_change()
        return target

    @property
    def __signature__(self) -> NoReturn:
        """FastAPI asks for it where this was meant to be a dependency, or was put above a function bare."""
        raise TypeError(
            "limiter.limit is a decorator that takes limits first: write @limiter.limit('5/minute'); in "
            "Depends(...), write limiter.dependency('5/minute')"
        )


def _check_target(target: object) -> None:
    if isinstance(target, APIRouter):
        raise TypeError(
            "a limit is put on a function, not on a router: write APIRouter(dependencies=[Depends("
            "limiter.dependency('5/minute'))])"
        )
    check_target(target, FastAPI, "a function", "on the methods that answer requests")


class LimitDependency:
    """Stands for limits in ``Depends(...)``: they are decided with those of the path function."""

    def __init__(self, options: LimitOptions, handle: RateLimitHandle) -> None:
        setattr(self, APPLIED_LIMITS, (AppliedLimit(options, handle),))

    @mark_as_coroutine_function
    def __call__(self, *given: object, **by_name: HTTPConnection) -> Awaitable[None]:
        """Check that the limits hold here; RuntimeError if the app has no RateLimit that would see to it.

        FastAPI gives the connection by name. Any other call would decide nothing, and is a TypeError.
        """
        if given or by_name.keys() != {_GIVEN_BY_FASTAPI}:
            _refuse_call(*given)
        return _check_connection(by_name[_GIVEN_BY_FASTAPI])

    @property
    def dependency(self) -> NoReturn:
        """FastAPI asks for it where this stands in ``dependencies=`` by itself."""
        raise TypeError(
            "limiter.dependency(...) stands in dependencies= by itself: write "
            "dependencies=[Depends(limiter.dependency('5/minute'))]"
        )

    def __deepcopy__(self, memo: object) -> NoReturn:
        """FastAPI copies the default of a parameter, where this stands by itself."""
        raise TypeError(
            "limiter.dependency(...) stands as the default of a parameter by itself: write "
            "Depends(limiter.dependency('5/minute'))"
        )

    __signature__ = inspect.Signature(
        [inspect.Parameter(_GIVEN_BY_FASTAPI, inspect.Parameter.KEYWORD_ONLY, annotation=HTTPConnection)]
    )


async def _check_connection(connection: HTTPConnection) -> None:
    conversation = connection.scope.get(CONVERSATION)
    if conversation is None or not conversation.state.knows(connection.app):
        raise RuntimeError(
            "a limit in Depends(...) is of a RateLimit that this app does not have: call init_app(app) on "
            "it, and have what wraps a mounted app keep it as self.app"
        )


def _refuse_call(target: object = None, *_: object) -> NoReturn:
    if callable(target):
        raise TypeError(
            f"limiter.dependency(...) does not decorate {function_name(target)}: write "
            "@limiter.limit('5/minute') above it, or dependencies=[Depends(limiter.dependency('5/minute'))]"
        )
    raise TypeError(
        "limiter.dependency(...) decides nothing when it is called by hand: write "
        "Depends(limiter.dependency('5/minute')), which decides each request or handshake. For each message "
        "of a websocket, await the hit(...) of an overlimit.aio.AsyncLimiter where it is received, or give "
        "message_limits= to overlimit.asgi.RateLimitMiddleware"
    )
