"""The RateLimit of Quart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from quart import Blueprint, Quart

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import NO_LIMITS
from overlimit.http.asgi.requests import kept_in
from overlimit.http.awaiting import ConversationRateLimit
from overlimit.http.callables import taking_request
from overlimit.http.decorators import options_of_decorator
from overlimit.http.options.kinds import documents, with_request, without_keys
from overlimit.http.options.limit_options import (
    LIMIT_OPTIONS,
    AnyLimits,
    AnyScope,
    LimitKeywords,
    SharedKeywords,
)
from overlimit.http.options.rate_limit_options import (
    RATE_LIMIT_OPTIONS,
    RateLimitOptions,
    shows_options,
)
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.quart.app_state import AppState
from overlimit.quart.conversation import this_request
from overlimit.quart.decorator import LimitDecorator, unnoticed

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = without_keys(RATE_LIMIT_OPTIONS)


class Keywords(RateLimitOptions, total=False):
    """The options of a RateLimit, and the app."""

    app: Quart | None


@documents(_OPTIONS)
class RateLimit(ConversationRateLimit[Quart]):
    """Limits the requests and websockets of apps; its state is in ``app.extensions["overlimit"]``.

    Functions given as options get the ``Request`` or ``Websocket`` if they take a parameter, after what it
    says, or find it by ``quart.request``; each may be a coroutine function. Limits are a string, a limit, a
    function that returns one of these for the current request, or a list of them.

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

    _app, _framework, _unnoticed = Quart, "Quart", unnoticed
    _keywords, _arguments = Keywords, 1
    _endpoints_are = "those of a blueprint are 'blueprint.view'"
    _keeping_request = (
        "it is at hand in a view, in its stream, and in tasks that were begun there. Elsewhere, await "
        "overlimit.asgi.asettle(request.scope, used), or arefund"
    )

    @shows_options(Keywords, _OPTIONS)
    @checks_arguments(hint=NO_LIMITS)
    @hides_passwords
    def __init__(self, app: Quart | None = None, /, **options: Unpack[Keywords]) -> None:
        """Keep the options; nothing is connected to."""
        super().__init__(app, options)

    @documents(LIMIT_OPTIONS)
    def limit(self, value: AnyLimits, **options: Unpack[LimitKeywords]) -> LimitDecorator:
        """Limit a view, a blueprint, any function that a request calls, or an ``async with`` block.

        Stacked decorators are all checked, together with the limits of blueprints and of the application, in
        one step: a refused request is charged nowhere. Counts are kept per endpoint. Below ``@app.route`` the
        request is decided when the innermost decorator is called; above it, when Quart is about to call the
        view. Other functions are limited by themselves whenever a request calls them. Outside a request
        nothing is limited.

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
        return self._decorator(value, options)

    def shared_limit(
        self, value: AnyLimits, scope: AnyScope, **options: Unpack[SharedKeywords]
    ) -> LimitDecorator:
        """Limit several routes by one count, whose name is ``scope`` or what it returns for an endpoint.

        The options are those of `limit`.
        """
        return self._decorator(value, {**options, "scope": scope}, is_shared=True)

    def _decorator(
        self, value: AnyLimits, keywords: LimitKeywords, *, is_shared: bool = False
    ) -> LimitDecorator:
        options = options_of_decorator(
            taking_request(value, 0, kept_in),
            with_request(keywords, LIMIT_OPTIONS, kept_in),
            read=self._settings.limits,
            arguments=1,
            is_shared=is_shared,
            during_request=this_request() is not None,
            written="limiter.limit",
        )
        return LimitDecorator(options, self._handle)

    def request_filter(self, function: F) -> F:
        """Let a request pass uncounted if the function returns true, given the request if it takes it."""
        self._add_filter(taking_request(function, 0, kept_in))
        return function

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        return with_request(options, _OPTIONS, kept_in)

    def _to_be_exempt(self, what: Any) -> object:
        if isinstance(what, (type, Quart)) or not (callable(what) or isinstance(what, Blueprint)):
            raise TypeError(f"only a function or a blueprint can be exempt, not {what!r}")
        return what

    def _state_of(self, app: Quart) -> AppState:
        return AppState.of(app)
