"""The Flask extension."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from flask import Blueprint, Flask, has_app_context

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import NO_LIMITS, missing
from overlimit.clocks import ClockLike
from overlimit.flask.app_state import AppState, Ledger
from overlimit.flask.commands import limits
from overlimit.flask.current import LEDGER, this_app, this_request
from overlimit.flask.decorator import LimitDecorator, limiting, unnoticed
from overlimit.flask.migration_hints import ARGUMENTS, OF_FILTER, OF_LIMIT, OF_LIMITER
from overlimit.flask.proxies import unproxied, without_proxies, without_proxy
from overlimit.http.options.kinds import documents
from overlimit.http.options.limit_options import LimitKeywords, LimitsValue, Scope, SharedKeywords
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, RateLimitOptions, shows_options
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.http.rate_limit import BaseRateLimit

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[[], object])


class Keywords(RateLimitOptions, total=False):
    """The options of a RateLimit, and the app."""

    app: Flask | None


@documents(RATE_LIMIT_OPTIONS)
class RateLimit(BaseRateLimit[Flask]):
    """Limits the requests of one or more apps; the state of an app is in ``app.extensions["overlimit"]``.

    An option that is not given here is read from the app's configuration, by the name in brackets. Limits are
    a string, a limit, a function without parameters that returns one of these for the current request, or a
    list of them.

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

    _app, _framework, _unnoticed, _first = Flask, "Flask", unnoticed, "the app"
    _keywords, _instead, _called = Keywords, ARGUMENTS, MappingProxyType({})
    _endpoints_are = "those of a blueprint are 'blueprint.view'"
    _keeping_request = (
        "wrap a generator in flask.stream_with_context(...), and what a thread or call_on_close calls in "
        "flask.copy_current_request_context(...)"
    )

    @shows_options(Keywords, RATE_LIMIT_OPTIONS)
    @checks_arguments(hint=NO_LIMITS)
    @hides_passwords
    def __init__(self, app: Flask | None = None, /, **options: Unpack[Keywords]) -> None:
        """Keep the options; nothing is connected to."""
        super().__init__(app, options)

    @hides_passwords
    def init_app(self, app: Flask, *, clock: ClockLike | None = None) -> None:
        """Limit an app. Several RateLimits on one app are asked in the order they were registered.

        ``clock`` drives the limits of this app instead of the RateLimit's: in tests, a ``ManualClock``. A
        second call for the same app replaces its options.

        Raises
        ------
        InvalidLimit
            A limit in the app's configuration is malformed.
        ValueError, TypeError
            Another key of the configuration has an invalid value, or ``app`` is not a Flask app.
        """
        app = unproxied(app)
        super().init_app(app, clock=clock)
        # Registered here, too: app.test_cli_runner() needs no entry point, and the app's own command stays.
        app.cli.commands.setdefault("limits", limits)

    @checks_arguments(instead=OF_LIMIT)
    def limit(self, value: LimitsValue, **options: Unpack[LimitKeywords]) -> LimitDecorator:
        """Limit a view, a blueprint, a function or a block as `rate_limit` does, through this RateLimit."""
        return limiting(value, self._handle, options, read=self._settings.limits)

    @checks_arguments(instead=OF_LIMIT)
    def shared_limit(
        self, value: LimitsValue, scope: Scope, **options: Unpack[SharedKeywords]
    ) -> LimitDecorator:
        """Limit several routes by one count, whose name is ``scope`` or what it returns for an endpoint.

        The options are those of `rate_limit`.
        """
        keywords: LimitKeywords = {**options, "scope": scope}
        return limiting(value, self._handle, keywords, read=self._settings.limits, is_shared=True)

    @checks_arguments(instead=OF_FILTER)
    def request_filter(self, function: F) -> F:
        """Let a request pass uncounted if the function, which takes no argument, returns true."""
        self._add_filter(without_proxy(function))
        return function

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        return without_proxies(options, RATE_LIMIT_OPTIONS)

    def _to_be_exempt(self, what: Any) -> object:
        what = unproxied(what)
        if isinstance(what, type):
            raise TypeError(f"{what.__name__} is a class: put the exemption into its decorators = [...]")
        if isinstance(what, Flask):
            raise TypeError("only a function or a blueprint can be exempt, not an app: set enabled = False")
        if not (callable(what) or isinstance(what, Blueprint)):
            raise TypeError(f"only a function or a blueprint can be exempt, not {what!r}")
        return what

    def _is_in_request(self) -> bool:
        return this_request() is not None

    def _current_state(self) -> AppState | None:
        return AppState.of(this_app()) if has_app_context() else None

    def _current_ledger(self) -> Ledger | None:
        return getattr(this_request(), LEDGER, None)

    def _state_of(self, app: Flask) -> AppState:
        return AppState.of(app)

    if not TYPE_CHECKING:  # so that type checkers still report missing attributes

        def __getattr__(self, name: str) -> object:
            raise missing(self, name, OF_LIMITER)
