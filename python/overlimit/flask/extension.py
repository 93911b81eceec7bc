"""The Flask extension."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload
from weakref import WeakSet

from flask import Blueprint, Flask, has_app_context

from overlimit import Decision, Limiter
from overlimit._forks import PerProcess
from overlimit.clocks import ClockLike
from overlimit.flask.app_state import LEDGER, AppState, Ledger, has_an_app
from overlimit.flask.commands import limits
from overlimit.flask.current import this_app, this_request
from overlimit.flask.decorator import Limited, LimitKeywords, SharedKeywords, limiting
from overlimit.flask.proxies import behind, without_proxies, without_proxy
from overlimit.http.exemptions import ALL_LIMITS, Exemptions, ExemptionScope
from overlimit.http.functions import check_callable, shows
from overlimit.http.identities import ANONYMOUS, as_identifiers, identify_by
from overlimit.http.installation import Forget, Installation
from overlimit.http.migration_hints import (
    OF_FILTER,
    OF_LIMIT,
    OF_LIMITER,
    HasMigrationHints,
    hints_at_arguments,
    no_such_option,
)
from overlimit.http.options import LimitsValue, Scope
from overlimit.http.reports import forget_counts
from overlimit.http.secrets import hides_passwords
from overlimit.http.settings import AllOptions, Options, Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["RateLimit"]

T = TypeVar("T", bound="Callable[..., Any] | Blueprint")
F = TypeVar("F", bound=Callable[[], object])


class Keywords(Options, total=False):
    """What a RateLimit takes by name."""

    app: Flask | None
    key_func: Callable[[], object] | None


class RateLimit(HasMigrationHints):
    """Limits the requests of one or more apps; what is of one app is in ``app.extensions["overlimit"]``.

    An option that is not given here is read from the app's configuration, by the name in brackets. Limits are
    a text, a limit, a function without parameters that returns one of these for the current request, or a
    list of them.

    Parameters
    ----------
    app
        Calls `init_app` at once.
    default_limits
        Hold for each route that has no decorator, counted per endpoint (RATELIMIT_DEFAULT).
    default_limits_per_method, default_limits_exempt_when, default_limits_deduct_when, default_limits_cost
        As for `rate_limit` (RATELIMIT_DEFAULTS_PER_METHOD and so on).
    application_limits
        Hold for all routes, counted together (RATELIMIT_APPLICATION); the options as above.
    meta_limits
        How often one may be refused: each refusal spends one, and when they are used up every request is
        refused (RATELIMIT_META).
    in_memory_fallback
        Replaces all limits, in the memory of this process, while the store fails
        (RATELIMIT_IN_MEMORY_FALLBACK).
    on_breach, on_meta_breach
        Called with the Decision of a refusal, by a meta limit or any other; a response it returns is the
        answer.
    identifiers
        Returns who sends the current request: one identifier or several, all of them limited; called once
        per request. `by_address` and the like do, and a list of such functions. Default: `get_identifiers`.
    key_func
        As ``identifiers``, but what it returns is one identifier: the ``str()`` of it, the parts of a tuple
        joined (RATELIMIT_KEY_FUNC).
    anonymous
        What becomes of requests with an empty identity (``""``, None, ``[]``): ``"share"``, the default,
        limits them all together, ``"exempt"`` does not limit them (RATELIMIT_ANONYMOUS).
    store
        URL or store (RATELIMIT_STORAGE_URI). ``"memory://"``, the default, is one store per app.
    clock
        Drives every limit; default: the time of the store.
    algorithm
        What limits given as text follow (RATELIMIT_STRATEGY, RATELIMIT_ALGORITHM).
    key_prefix
        Keeps apart what shares a store (RATELIMIT_KEY_PREFIX); default: none.
    enabled
        False lets everything pass (RATELIMIT_ENABLED); default: True.
    headers
        ``"draft"``, the default, sends the fields of the IETF draft, ``"legacy"`` X-RateLimit-*, ``"both"``
        both, None sends none (RATELIMIT_HEADERS, RATELIMIT_HEADERS_ENABLED).
    header_names
        The names of the ``"legacy"`` fields (RATELIMIT_HEADER_LIMIT and so on).
    on_error
        What happens when the store fails: ``"allow"`` (the default), ``"deny"`` (503), ``"local"`` (this
        process decides, by ``local_share`` of the limits) or ``"raise"`` (RATELIMIT_ON_ERROR).
    local_share
        As for ``Limiter``.
    shadow
        Whether everything is counted, headers are left out and nothing is refused (RATELIMIT_SHADOW).
    trusted_proxies
        How many proxies, or which addresses and networks, are believed about the client's address
        (RATELIMIT_TRUSTED_PROXIES); default: none, ``X-Forwarded-For`` is ignored.
    ipv6_prefix
        How many bits of an IPv6 address make one client (RATELIMIT_IPV6_PREFIX); default: 64.

    Raises
    ------
    InvalidLimit
        A limit is malformed.
    ValueError, TypeError
        Another option has a value that it must not have, or there is no option of this name.
    """

    _migration_hints = OF_LIMITER

    @shows(Keywords)
    @hides_passwords
    def __init__(self, app: Flask | None = None, /, **options: Unpack[Keywords]) -> None:
        """Keep the options; nothing is connected to."""
        app = _app_of(app, options)
        self._settings = Settings(_options_of(options))
        self._settings.check()
        self._enabled: bool | None = None
        self._suspended = 0
        self._switching = PerProcess(threading.Lock)
        self._states: WeakSet[AppState] = WeakSet()
        self._registered_once = False
        self.exemptions = Exemptions()
        self.request_filters: list[Callable[[], object]] = []
        if app is not None:
            self.init_app(app)

    @hides_passwords
    def init_app(self, app: Flask, *, clock: ClockLike | None = None) -> None:
        """Limit an app. Several RateLimits on one app are asked in the order they were registered.

        ``clock`` drives the limits of this app instead of the RateLimit's: in tests, a ``ManualClock``. A
        second call for the same app settles everything anew.

        Raises
        ------
        InvalidLimit
            A limit in the app's configuration is malformed.
        ValueError, TypeError
            Another key of the configuration has a value that it must not have, or ``app`` is no Flask app.
        """
        app = behind(app)
        if not isinstance(app, Flask):
            raise TypeError(f"init_app takes the Flask app, as in init_app(app), not {type(app).__name__}")
        state = AppState.of(app)
        settings = self._settings if clock is None else Settings({**self._settings.options, "clock": clock})
        state.register(self, settings)
        # Found without the package's entry point too, as app.test_cli_runner() does; the app's own stays.
        app.cli.commands.setdefault("limits", limits)
        self._states.add(state)
        self._registered_once = True
        has_an_app(self)
        with self._switching():
            self._switch(self._enabled)

    @hints_at_arguments(OF_LIMIT)
    def limit(self, value: LimitsValue, **options: Unpack[LimitKeywords]) -> Limited:
        """Limit a view, a blueprint, a function or a block as `rate_limit` does, through this RateLimit.

        Raises
        ------
        InvalidLimit
            ``value`` is malformed.
        ValueError, TypeError
            An option has a value that it must not have.
        """
        return limiting(value, self, options, read=self._settings.limits)

    @hints_at_arguments(OF_LIMIT)
    def shared_limit(self, value: LimitsValue, scope: Scope, **options: Unpack[SharedKeywords]) -> Limited:
        """Limit all that it is put on together: ``scope`` names the count, or returns that for an endpoint.

        Raises
        ------
        InvalidLimit
            ``value`` is malformed.
        ValueError, TypeError
            An option has a value that it must not have.
        """
        keywords: LimitKeywords = {**options, "scope": scope}
        return limiting(value, self, keywords, read=self._settings.limits, is_shared=True)

    @overload
    def exempt(self, obj: None = None, *, flags: ExemptionScope = ALL_LIMITS) -> Callable[[T], T]: ...
    @overload
    def exempt(self, obj: T, *, flags: ExemptionScope = ALL_LIMITS) -> T: ...
    def exempt(self, obj: Any = None, *, flags: ExemptionScope = ALL_LIMITS) -> Any:
        """Leave a view or the views of a blueprint alone, as far as the flags say; also as a decorator.

        With ``DEFAULT`` a view is free from its own decorators too. A blueprint's exemption is for those
        nested in it only with ``DESCENDENTS``.
        """
        if obj is None:
            return lambda target: self.exempt(target, flags=flags)
        self.exemptions.add(_to_be_exempt(behind(obj)), flags)
        self._forget_plans()
        return obj

    @property
    def _was_registered(self) -> bool:
        return self._registered_once

    def _limits(self, app: Flask) -> bool:
        return any(state.app is app for state in self._states)

    def _forget_plans(self) -> None:
        """Compile the limits of its apps anew: what holds where has changed."""
        for state in self._states:
            state.forget_plans()

    @hints_at_arguments(OF_FILTER)
    def request_filter(self, function: F) -> F:
        """Let requests pass uncounted for which the function, which takes no argument, returns true."""
        known = without_proxy(function)
        check_callable("request_filter", known, 0)
        self.request_filters.append(known)
        self._forget_plans()
        return function

    @property
    def enabled(self) -> bool:
        """Whether anything is limited: False within `disabled`. May be set at any time, for all apps."""
        if self._suspended:
            return False
        return (
            all(installation.enabled for installation in self._installations())
            if self._enabled is None
            else self._enabled
        )

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        with self._switching():
            self._switch(bool(enabled))

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Limit nothing within a ``with`` block, in any thread: for tests. Blocks may overlap."""
        self._suspend(1)
        try:
            yield
        finally:
            self._suspend(-1)

    def reset(self, *identifiers: object, endpoint: str | None = None) -> None:
        """Give identifiers a fresh start on the current app; without one, on all apps of this RateLimit.

        It forgets what this RateLimit has counted of them, locks included, in whatever store; with
        ``endpoint`` only what counts that endpoint alone, so no limit of the application, of a shared scope
        or of refusals. Identifiers are such as ``identifiers`` returns: ``"ip:203.0.113.7"``, ``"user:42"``.
        Counts whose names only a request tells (of a ``scope`` or limits that read it, of plain functions and
        ``with`` blocks) are forgotten as far as this process has used them, the latest 1024 names; those of
        other processes stay.

        Raises
        ------
        ValueError
            No identifier is named (`reset_all` is for everybody), one is empty, or no app has the endpoint.
        TypeError
            One of them is nothing that ``identifiers`` may return.
        StoreError
            The store cannot answer.
        RuntimeError
            The current app does not have this RateLimit, or not that of one of its decorators.
        """
        if not identifiers:
            raise ValueError("name whom to forget, as in reset('user:42'), or call reset_all() for everybody")
        if any(each is None or each in ("", b"") for each in identifiers):
            raise ValueError(f"an identifier is not empty; who has none is counted as {ANONYMOUS!r}")
        named = as_identifiers(identifiers)
        self._forget(endpoint, lambda limiter: limiter.reset(*named))

    def reset_all(self, endpoint: str | None = None) -> None:
        """Give everybody a fresh start: for tests.

        As `reset`, for those in other processes too. No other key of the store is touched. On Redis all keys
        of the database are looked at, once for each policy.

        Raises
        ------
        ValueError
            No app has the endpoint.
        StoreError
            The store cannot answer.
        RuntimeError
            As for `reset`.
        """
        self._forget(endpoint, Limiter.reset_all)

    def _forget(self, endpoint: str | None, forget: Forget) -> None:
        registered = tuple(self._registered())
        if endpoint is not None and not any(endpoint in state.app.view_functions for state, _ in registered):
            raise ValueError(f"no endpoint is called {endpoint!r}; those of a blueprint are 'blueprint.view'")
        for state, installation in registered:
            with state.app.app_context():
                forget_counts(state.rules(), installation, endpoint, forget)

    def _registered(self) -> Iterator[tuple[AppState, Installation]]:
        states = (AppState.of(this_app()),) if has_app_context() else tuple(self._states)
        for state in states:
            installation = state.installations.get(self)
            if installation is None:
                raise RuntimeError(
                    f"{state.app.name!r} does not have this RateLimit: call init_app(app) on it"
                )
            yield state, installation

    def _suspend(self, more: int) -> None:
        with self._switching():
            self._suspended += more
            self._switch(self._enabled)

    def _switch(self, enabled: bool | None) -> None:
        """Switch on or off, unless blocks of `disabled` are open; None: as options and configuration say."""
        wanted = [each.enabled_by_settings if enabled is None else enabled for each in self._installations()]
        for installation, on in zip(self._installations(), wanted, strict=True):
            if on:
                installation.check_store()
        self._enabled = enabled
        for installation, on in zip(self._installations(), wanted, strict=True):
            installation.enabled = on and not self._suspended
        self._forget_plans()

    def _installations(self) -> list[Installation]:
        installations = [state.installations.get(self) for state in self._states]
        return [installation for installation in installations if installation is not None]

    @property
    def current_decision(self) -> Decision | None:
        """The latest decision on the current request; None when there is none. A refused one is falsy.

        Where nothing but shadow limits would have refused, it is the refusal.
        """
        asked = this_request()
        installation = None if asked is None else AppState.of(this_app()).installations.get(self)
        ledger: Ledger | None = getattr(asked, LEDGER, None)
        return None if ledger is None or installation is None else ledger.decision(installation)


def _app_of(first: Flask | None, options: Keywords) -> Flask | None:
    """Return the app, given first or by name, out of the options."""
    app = options.pop("app", None) if first is None else first
    if isinstance(app, Flask) and "app" not in options:
        return app
    if callable(app):
        raise TypeError("the first argument is the app: write RateLimit(app, identifiers=...) of a function")
    if app is not None:
        kind = type(app).__name__
        raise TypeError(f"app must be a Flask app, not a {kind}; limits are given as default_limits=...")
    return app


def _options_of(options: Keywords) -> AllOptions:
    """Return the options by the names they have here.

    Raises
    ------
    TypeError
        There is none of this name, or one is given under both of its names.
    """
    for name in options:
        if name not in Keywords.__annotations__:
            raise no_such_option(name, Keywords.__annotations__)
    given = without_proxies(options)
    identify = identify_by(given.get("identifiers"), given.pop("key_func", None))
    return cast(AllOptions, {**given, "identifiers": identify})


def _to_be_exempt(what: Any) -> object:
    """Return what is to be exempt if it can be."""
    if isinstance(what, type):
        raise TypeError(f"{what.__name__} is a class: put the exemption into its decorators = [...]")
    if not (callable(what) or isinstance(what, Blueprint)):
        raise TypeError(f"only a function or a blueprint can be exempt, not {what!r}")
    return what
