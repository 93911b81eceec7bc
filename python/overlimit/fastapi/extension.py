"""The RateLimit of FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, overload

from fastapi import APIRouter, FastAPI

from overlimit._messages.arguments import check_options, checks_arguments
from overlimit._messages.migration_hints import hints_at_arguments
from overlimit._messages.texts import short_repr
from overlimit.clocks import ClockLike
from overlimit.fastapi.app_state import AppState
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
from overlimit.http.asgi.conversations import current
from overlimit.http.asgi.requests import kept_in
from overlimit.http.asgi.settling import check_thread
from overlimit.http.callables import asked_once
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.options.kinds import documents, without_keys
from overlimit.http.options.limit_options import AnyLimits, AnyScope, LimitOptions
from overlimit.http.options.rate_limit_options import (
    GROUPS,
    RATE_LIMIT_OPTIONS,
    RateLimitOptions,
    shows_options,
)
from overlimit.http.options.settings import Settings
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.http.rate_limit import BaseRateLimit
from overlimit.http.rules.applied_limits import ALL_LIMITS, ExemptionScope

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
class RateLimit(BaseRateLimit):
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

    @shows_options(Keywords, _OPTIONS)
    @checks_arguments(hint=ARGUMENTS["limits"])
    @hides_passwords
    def __init__(self, app: FastAPI | None = None, /, **options: Unpack[Keywords]) -> None:
        """Keep the options; nothing is connected to."""
        app = options.pop("app", None) if app is None else app
        _check_app(app)
        settings = Settings(_options_of(options), 1)
        settings.check(**{name: name for name in GROUPS})
        super().__init__(settings)
        if app is not None:
            self.init_app(app)

    @hides_passwords
    def init_app(self, app: FastAPI, *, clock: ClockLike | None = None) -> None:
        """Limit an app, before it starts. Several RateLimits on one app are asked in their order.

        ``clock`` drives the limits of this app instead of the RateLimit's: in tests, a ``ManualClock``. A
        second call for the same app replaces its options.

        Raises
        ------
        ValueError
            The URL of the store is malformed.
        TypeError
            ``app`` is not a FastAPI app.
        RuntimeError
            The app has been started.
        """
        if not isinstance(app, FastAPI):
            raise TypeError(f"init_app takes the FastAPI app, as in init_app(app), not {type(app).__name__}")
        AppState.of(app).register(self._handle, self._settings.replaced(clock=clock))
        self._handle.switch_new_apps()

    @documents(OPTIONS)
    @checks_arguments(hint=_ONE_TEXT)
    @hints_at_arguments(OF_LIMIT)
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
        return LimitDecorator(self._checked(value, options), self._handle, value)

    @hints_at_arguments(OF_LIMIT)
    def shared_limit(
        self, value: Limits, scope: AnyScope, **options: Unpack[SharedRouteKeywords]
    ) -> LimitDecorator:
        """Limit several routes by one count, whose name is ``scope`` or what it returns for an endpoint.

        The options are those of `limit`.
        """
        checked = self._checked(value, {**options, "scope": scope}, is_shared=True)
        return LimitDecorator(checked, self._handle)

    @checks_arguments(hint=_ONE_TEXT)
    @hints_at_arguments(OF_LIMIT)
    def dependency(self, value: Limits, **options: Unpack[RouteKeywords]) -> LimitDependency:
        """Return what ``Depends(...)`` takes to limit routes, or all routes of a router or of the app.

        The limits join the one decision on a request, and count per path function. The options are those of
        `limit`.
        """
        return LimitDependency(self._checked(value, options), self._handle)

    @hints_at_arguments(OF_LIMIT)
    def shared_dependency(
        self, value: Limits, scope: AnyScope, **options: Unpack[SharedRouteKeywords]
    ) -> LimitDependency:
        """Return what ``Depends(...)`` takes to limit several routes by one count, as `shared_limit` does."""
        checked = self._checked(value, {**options, "scope": scope}, is_shared=True)
        return LimitDependency(checked, self._handle)

    def _checked(self, value: AnyLimits, keywords: RouteKeywords, *, is_shared: bool = False) -> LimitOptions:
        return route_options(value, keywords, read=self._settings.limits, is_shared=is_shared)

    @overload
    def exempt(self, obj: None = None, *, flags: ExemptionScope = ALL_LIMITS) -> Callable[[F], F]: ...
    @overload
    def exempt(self, obj: F, *, flags: ExemptionScope = ALL_LIMITS) -> F: ...
    def exempt(self, obj: Any = None, *, flags: ExemptionScope = ALL_LIMITS) -> Any:
        """Exempt a path function from the limits in ``flags``; also as a decorator.

        With ``DEFAULT`` it is exempt from its own decorators and dependencies, too.
        """
        if obj is None:
            return lambda target: self.exempt(target, flags=flags)
        if isinstance(obj, (type, FastAPI, APIRouter)) or not callable(obj):
            raise TypeError(
                f"only a path function can be exempt, not {short_repr(obj)}: write @limiter.exempt above each"
            )
        self.exemptions.add(obj, flags)
        self._handle.note_change()
        return obj

    def request_filter(self, function: F) -> F:
        """Let a request pass uncounted if the function returns true, given the request if it takes it."""
        self._add_filter(asked_once(taking_dependencies(function), kept_in), 1)
        return function

    _endpoints_are = "they have the names of their functions, as 'main.read_items'"

    _keeping_request = (
        "it is at hand in a path function, in its stream, and in a BackgroundTask. Elsewhere, as in a "
        "middleware around that of RateLimit, await overlimit.asgi.asettle(request.scope, used), or arefund"
    )
    _check_thread = staticmethod(check_thread)

    def _is_in_request(self) -> bool:
        return current.get() is not None

    def _current_state(self) -> AppState | None:
        conversation = current.get()
        return None if conversation is None else conversation.state

    def _current_ledger(self) -> RequestLedger | None:
        conversation = current.get()
        return None if conversation is None else conversation.ledger

    def _state_of(self, app: FastAPI) -> AppState:
        return AppState.of(app)


def _check_app(app: object) -> None:
    if app is None or isinstance(app, FastAPI):
        return
    if callable(app) and not isinstance(app, type):
        name = getattr(app, "__name__", type(app).__name__)
        raise TypeError(
            f"the first argument must be the FastAPI app, not {name}: write RateLimit(app, key_func=...); "
            "for other ASGI apps there is overlimit.asgi.RateLimitMiddleware"
        )
    raise TypeError(
        f"app must be a FastAPI app, not a {type(app).__name__}; limits are given as default_limits=..."
    )


def _options_of(options: Keywords) -> dict[str, Any]:
    """Return the options with functions as they will be called; raises TypeError if one does not exist."""
    check_options("RateLimit", options, Keywords.__annotations__, ARGUMENTS)
    BEFORE_VALIDATION.check(options.get("before_validation") or False, 1)
    return taken_functions(dict(options), _OPTIONS)
