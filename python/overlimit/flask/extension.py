"""The Flask extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from flask import Flask

from overlimit import Decision
from overlimit.clocks import ClockLike
from overlimit.flask.app_state import AppState
from overlimit.flask.current import this_app, this_request
from overlimit.flask.decorator import limiting
from overlimit.flask.ledger import ledger_of
from overlimit.flask.settings import UNSET, Headers, Settings, Unset
from overlimit.http.plan import Identify
from overlimit.limits import LimitsLike
from overlimit.stores import Store

__all__ = ["RateLimit"]

P = ParamSpec("P")
R = TypeVar("R")


class RateLimit:
    """Limits the requests of one or more apps; what is of one app is in ``app.extensions["overlimit"]``.

    An option that is not given here is read from the app's configuration.

    Parameters
    ----------
    app
        Calls `init_app` at once.
    default_limits
        Hold for each route that has no decorator, counted per endpoint (RATELIMIT_DEFAULT).
    application_limits
        Hold for all routes, counted together (RATELIMIT_APPLICATION).
    identifiers
        Returns who sends the current request: one identifier or several, all of them limited;
        called once per request. No identity is the shared one, ``anonymous``. Default: `get_identifiers`.
    store
        URL or store (RATELIMIT_STORAGE_URI). ``"memory://"``, the default, is one store per app.
    clock
        Drives every limit; default: the time of the store.
    algorithm
        What limits given as text follow.
    key_prefix
        Keeps apart what shares a store (RATELIMIT_KEY_PREFIX); default: none.
    enabled
        False lets everything pass (RATELIMIT_ENABLED); default: True.
    headers
        ``"draft"``, the default, sends the fields of the IETF draft, None sends none
        (RATELIMIT_HEADERS_ENABLED).

    Raises
    ------
    InvalidLimit
        A limit is malformed.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        default_limits: LimitsLike | None = None,
        application_limits: LimitsLike | None = None,
        identifiers: Identify | None = None,
        store: str | Store | None = None,
        clock: ClockLike | None = None,
        algorithm: str | None = None,
        key_prefix: str | None = None,
        enabled: bool | None = None,
        headers: Headers | Unset = UNSET,
    ) -> None:
        """Keep the options; nothing is connected to."""
        if headers not in (UNSET, "draft", None):
            raise ValueError(f"headers is 'draft' or None, not {headers!r}")
        if app is not None and not isinstance(app, Flask):
            raise TypeError(f"app must be a Flask app, not {app!r}; limits are given as default_limits=...")
        if identifiers is not None and not callable(identifiers):
            raise TypeError(f"identifiers must be a function without parameters, not {identifiers!r}")
        self._settings = Settings(
            default_limits=default_limits,
            application_limits=application_limits,
            identifiers=identifiers,
            store=store,
            clock=clock,
            algorithm=algorithm,
            key_prefix=key_prefix,
            enabled=enabled,
            headers=headers,
        )
        self._settings.check_limits()
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Limit an app. Several RateLimits on one app are asked in the order they were registered.

        Raises
        ------
        InvalidLimit
            A limit in the app's configuration is malformed.
        """
        AppState.of(app).register(self, self._settings)

    def limit(
        self,
        value: LimitsLike,
        *,
        identifiers: Identify | None = None,
        algorithm: str | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Limit a view or a function as `rate_limit` does, through this RateLimit.

        Raises
        ------
        InvalidLimit
            ``value`` is malformed.
        """
        return limiting(
            value,
            limiter=self,
            identifiers=identifiers,
            algorithm=algorithm or self._settings.algorithm,
            name=name,
        )

    @property
    def current_decision(self) -> Decision | None:
        """The latest decision on the current request; None when there is none. A refused one is falsy."""
        asked = this_request()
        binding = None if asked is None else AppState.of(this_app()).bindings.get(self)
        return None if asked is None or binding is None else ledger_of(asked).decision(binding)
