"""The RateLimit of FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import NO_LIMITS
from overlimit._messages.texts import short_repr
from overlimit.fastapi.app_state import AppState, watch_apps
from overlimit.fastapi.migration_hints import ARGUMENTS, OF_LIMIT
from overlimit.fastapi.option_dependencies import taking_dependencies
from overlimit.fastapi.route_limits import (
    BEFORE_VALIDATION,
    OPTIONS,
    LimitDecorator,
    LimitDependency,
    Limits,
    RouteKeywords,
    SharedRouteKeywords,
    route_options,
    taken_functions,
)
from overlimit.http.asgi.requests import kept_in
from overlimit.http.awaiting import ConversationRateLimit
from overlimit.http.callables import asked_once
from overlimit.http.options.kinds import documents, without_keys
from overlimit.http.options.limit_options import AnyLimits, AnyScope, LimitOptions
from overlimit.http.options.rate_limit_options import (
    RATE_LIMIT_OPTIONS,
    RateLimitOptions,
    shows_options,
)
from overlimit.http.options.storage_urls import hides_passwords

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = without_keys({**RATE_LIMIT_OPTIONS, BEFORE_VALIDATION.name: BEFORE_VALIDATION})

_ONE_TEXT = "write several limits in one text, as '5/minute; 100/hour', and options by name"


class Keywords(RateLimitOptions, total=False):
    """The options of a RateLimit, and the app."""

    app: FastAPI | None
    before_validation: Annotated[bool | None, BEFORE_VALIDATION]


@documents(_OPTIONS)
class RateLimit(ConversationRateLimit[FastAPI]):
    """Limits the requests and websockets of one or more apps; its state is in ``app.state.overlimit``.

    Functions given as options get the ``Request`` or ``WebSocket`` if they take a parameter, after what it
    says; each may be a coroutine function. Limits are a string, a limit, a function that returns one of these
    for the current request, or a list of them.

    Parameters
    ----------
    app
        Calls `init_app` at once.
    {options}

    Raises
    ------
    InvalidLimit
        A limit is malformed.
    ValueError, TypeError
        Another option has an invalid value, or there is no option of this name.
    """

    _app, _framework = FastAPI, "FastAPI"
    _keywords, _instead, _arguments = Keywords, ARGUMENTS, 1
    _endpoints_are = "they have the names of their functions, as 'main.read_items'"
    _keeping_request = (
        "it is at hand in a path function, in its stream, and in a BackgroundTask. Elsewhere, as in a "
        "middleware around that of RateLimit, await overlimit.asgi.asettle(request.scope, used), or arefund"
    )

    @shows_options(Keywords, _OPTIONS)
    @checks_arguments(hint=NO_LIMITS)
    @hides_passwords
    def __init__(self, app: FastAPI | None = None, /, **options: Unpack[Keywords]) -> None:
        """Keep the options; nothing is connected to."""
        super().__init__(app, options)

    @documents(OPTIONS)
    @checks_arguments(instead=OF_LIMIT, hint=_ONE_TEXT)
    def limit(self, value: Limits, **options: Unpack[RouteKeywords]) -> LimitDecorator:
        """Limit a path function, or a function that path functions depend on; it stays as it is.

        A request is decided in one step, by all limits that hold for it, once its parameters were validated
        and its dependencies called, just before the path function. Stacked decorators are all checked; their
        order with the decorator of the route does not matter. Counts are kept per function.

        Parameters
        ----------
        value
            Limits as a string (``"10/second; 120/minute"``), a limit, a function that returns one of these
            for the current request (``""``: no limit), or a list of them.
        {options}

        Raises
        ------
        InvalidLimit
            ``value`` is malformed; raised here and not at a request.
        ValueError, TypeError
            An option has an invalid value.
        """
        return LimitDecorator(self._checked(value, options), self._handle, watch_apps, value)

    @checks_arguments(instead=OF_LIMIT)
    def shared_limit(
        self, value: Limits, scope: AnyScope, **options: Unpack[SharedRouteKeywords]
    ) -> LimitDecorator:
        """Limit several routes by one count, whose name is ``scope`` or what it returns for an endpoint.

        The options are those of `limit`.
        """
        checked = self._checked(value, {**options, "scope": scope}, is_shared=True)
        return LimitDecorator(checked, self._handle, watch_apps)

    @checks_arguments(instead=OF_LIMIT, hint=_ONE_TEXT)
    def dependency(self, value: Limits, **options: Unpack[RouteKeywords]) -> LimitDependency:
        """Return what ``Depends(...)`` takes to limit routes, or all routes of a router or of the app.

        The limits join the one decision on a request, and count per path function. The options are those of
        `limit`.
        """
        return LimitDependency(self._checked(value, options), self._handle)

    @checks_arguments(instead=OF_LIMIT)
    def shared_dependency(
        self, value: Limits, scope: AnyScope, **options: Unpack[SharedRouteKeywords]
    ) -> LimitDependency:
        """Return what ``Depends(...)`` takes to limit several routes by one count, as `shared_limit` does."""
        checked = self._checked(value, {**options, "scope": scope}, is_shared=True)
        return LimitDependency(checked, self._handle)

    def _checked(self, value: AnyLimits, keywords: RouteKeywords, *, is_shared: bool = False) -> LimitOptions:
        return route_options(value, keywords, read=self._settings.limits, is_shared=is_shared)

    def request_filter(self, function: F) -> F:
        """Let a request pass uncounted if the function returns true, given the request if it takes it."""
        self._add_filter(asked_once(taking_dependencies(function), kept_in))
        return function

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        BEFORE_VALIDATION.check(options.get("before_validation") or False, 1)
        return taken_functions(options, _OPTIONS)

    def _to_be_exempt(self, what: Any) -> object:
        is_one = callable(what) and not isinstance(what, (type, FastAPI, APIRouter))
        if not is_one:
            raise TypeError(
                f"only a path function can be exempt, not {short_repr(what)}: write @limiter.exempt above "
                "each"
            )
        return what

    def _state_of(self, app: FastAPI) -> AppState:
        return AppState.of(app)
