"""What ``app.extensions["overlimit"]`` holds: an app's RateLimits and the compiled plans of its routes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from flask import Flask, Request, Response, request_started
from flask.views import http_method_funcs
from werkzeug.datastructures import Headers

from overlimit import Decision
from overlimit._forks import PerProcess
from overlimit.flask.current import EXTENSION, current_request, this_app
from overlimit.flask.errors import RefusedRequest, note_refusal, rate_limited, refuse
from overlimit.flask.identifiers import BY_DEFAULT, CURRENT
from overlimit.flask.proxies import without_proxies
from overlimit.flask.routes import View, check_methods, find_route, routes_of, rules_of_app
from overlimit.http.installations import Installations, RateLimitLike
from overlimit.http.ledger import RequestLedger
from overlimit.http.marks import Layer, Mark, Owner
from overlimit.http.options import LimitOptions
from overlimit.http.precedence import (
    Route,
    check_marks,
    stores_of_block,
    stores_of_function,
    stores_of_route,
)
from overlimit.http.reports import RouteRules
from overlimit.http.route_plan import RoutePlan, StoreRules
from overlimit.http.rules import MOST_KEPT
from overlimit.http.settings import Settings
from overlimit.limiter import warn_of_other_processes

__all__ = ["LEDGER", "AppState", "Ledger", "has_an_app", "wait_for_apps"]

LEDGER = "_overlimit_ledger"
"""The attribute of a request that holds its ledger: several requests may share one ``g``."""

_HOOKS_FAILED = "_overlimit_hooks_failed"
"""The attribute of a request whose ``after_request`` hooks have failed."""

_OTHER_NAMES = frozenset({"Content-Length", "Content-Type", "Location", "Set-Cookie", "Vary"})
"""What most responses have, and nothing else: none of these is a field of ours."""

_creating = PerProcess(threading.Lock)


class ViewPlan(RoutePlan):
    """The plan of a route, and which of its decorators a call of its view passes through."""

    __slots__ = ("marks", "view", "view_decides")

    def __init__(self, view: View | None, route: Route, stores: Sequence[StoreRules] = ()) -> None:
        """Take the view whose route was compiled."""
        super().__init__(stores)
        self.view = view
        self.marks = frozenset(route.marks)
        self.view_decides = route.view_decides


_NO_PLAN = ViewPlan(None, Route("", ""))
"""Of what has no view."""


class Ledger(RequestLedger):
    """The ledger of a Flask request."""

    __slots__ = ()

    plan: ViewPlan

    def enforce(self, stores: Iterable[StoreRules] | None = None) -> None:
        """Decide as `decide` does, and raise what refuses the request.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            It is refused.
        """
        refusal = self.decide(stores)
        if refusal is not None:
            refuse(refusal)

    def note_refusal_in_shadow(self, decision: Decision) -> None:
        """Log a refusal that changes nothing, and send the signal."""
        super().note_refusal_in_shadow(decision)
        rate_limited.send(this_app(), decision=decision)


class AppState:
    """The RateLimits of one app and its plans; safe for threads.

    A plan is compiled at the first request that needs it and kept until a RateLimit is registered or told of
    an exemption, or the view of its endpoint is replaced.
    """

    def __init__(self, app: Flask) -> None:
        """Stand around the app's dispatching, its errors and its responses; `of` makes one per app."""
        self.app = app
        self.installations = Installations(app.name, BY_DEFAULT)
        self._routes: dict[tuple[str, str], ViewPlan] = {}
        self._functions: WeakKeyDictionary[Layer, dict[tuple[str, str], tuple[StoreRules, ...]]] = (
            WeakKeyDictionary()
        )
        self._stores_of_block = lru_cache(MOST_KEPT)(self._compile_block)
        self._compiling = PerProcess(threading.RLock)
        self._views = app.view_functions
        self._dispatch, self._process = app.dispatch_request, app.process_response
        self._handle_error = app.handle_user_exception
        app.dispatch_request = self._decide_then_dispatch  # type: ignore[method-assign]
        app.handle_user_exception = self._note_then_handle  # type: ignore[assignment, method-assign]
        app.process_response = self._process_between  # type: ignore[method-assign]

    @classmethod
    def of(cls, app: Flask) -> AppState:
        """Return the state of the app, made at first use."""
        state: AppState | None = app.extensions.get(EXTENSION)
        if state is None:
            with _creating():
                state = app.extensions.get(EXTENSION)
                if state is None:
                    state = app.extensions[EXTENSION] = cls(app)
        return state

    def register(self, limiter: RateLimitLike, settings: Settings) -> None:
        """Add a RateLimit.

        Raises
        ------
        InvalidLimit
            A limit in the configuration is malformed.
        ValueError, TypeError
            Another key of the configuration has a value that it must not have.
        """
        config = {key: self.app.config[key] for key in self.app.config if str(key).startswith("RATELIMIT_")}
        with self._compiling():
            self.installations.register(limiter, settings.completed(without_proxies(config)))
            self.forget_plans()

    def forget_plans(self) -> None:
        """Compile everything anew when it is needed next."""
        with self._compiling():
            self._routes.clear()
            self._functions.clear()
            self._stores_of_block.cache_clear()

    def rules(self) -> tuple[RouteRules, ...]:
        """Return the rules of every route but those of static files.

        Raises
        ------
        RuntimeError
            The RateLimit of a bound decorator is not registered on the app.
        """
        for route in routes_of(self.app):
            check_marks(self.installations, route)
        return tuple(rules_of_app(self.app, self.installations))

    def enforce(self, layer: Layer, asked: Request) -> None:
        """Decide the request if that is up to this decorator.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            The request is refused.
        """
        ledger = self._ledger(asked)
        if layer.marks[0] not in ledger.plan.marks:
            ledger.enforce(self._looked_at(self._stores_of_function(layer, asked), asked))
        elif layer.innermost:
            ledger.enforce()

    def enforce_block(self, options: LimitOptions, limiter: Owner | None, asked: Request) -> None:
        """Decide the request by the limits of a ``with`` block.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            The request is refused.
        """
        stores = self._stores_of_block(options, limiter, *_counted_place(asked))
        self._ledger(asked).enforce(self._looked_at(stores, asked))

    def _looked_at(self, stores: tuple[StoreRules, ...], asked: Request) -> tuple[StoreRules, ...]:
        """Return the rules; warn if they count in memory what several processes serve."""
        if asked.environ.get("wsgi.multiprocess") and any(each.in_memory for each in stores):
            warn_of_other_processes(self.app.name)
        return stores

    def _ledger(self, asked: Request) -> Ledger:
        return getattr(asked, LEDGER, None) or _begin_ledger(asked, self._route_plan(asked))

    # Wrapped on the app: the one place behind every before_request hook, whenever hook and view are made,
    # and inside what turns exceptions into responses.
    def _decide_then_dispatch(self, *args: Any) -> Any:
        asked = current_request()
        if asked.method != "OPTIONS":
            plan = self._route_plan(asked)
            if plan.stores:
                if plan.in_memory and asked.environ.get("wsgi.multiprocess"):
                    warn_of_other_processes(self.app.name)
                ledger = getattr(asked, LEDGER, None) or _begin_ledger(asked, plan)
                if not plan.view_decides:
                    ledger.enforce()
        return self._dispatch(*args)

    # A refusal may have been made where there is no request, in a thread of the app's own.
    def _note_then_handle(self, *args: Any) -> Any:
        error = args[-1]
        if isinstance(error, RefusedRequest):
            note_refusal(error.decision)
        return self._handle_error(*args)

    # The after_request hooks see the header fields and may change them; whether a request counts is found out
    # behind them, from the response that leaves.
    def _process_between(self, response: Response) -> Response:
        asked = current_request()
        ledger: Ledger | None = getattr(asked, LEDGER, None)
        if ledger is None:
            return self._process(response)
        _set(response.headers, ledger.fields())
        try:
            response = self._process(response)
        except Exception:
            # Flask asks the hooks once more about its answer to a failure of theirs, and sends that
            # whatever they do then: no other response will come by.
            if ledger.returns and hasattr(asked, _HOOKS_FAILED):
                ledger.give_back(response)
            setattr(asked, _HOOKS_FAILED, True)
            raise
        if ledger.returns:
            ledger.give_back(response)
        return response

    def _route_plan(self, asked: Request) -> ViewPlan:
        """Return the plan for the endpoint and method of a request."""
        rule, method = asked.url_rule, asked.method
        if rule is None:
            return _NO_PLAN
        endpoint = rule.endpoint
        view = self._views.get(endpoint)
        if view is None:
            return _NO_PLAN
        plan = self._routes.get((endpoint, method))
        if plan is None or plan.view is not view:
            with self._compiling():
                plan = self._routes[endpoint, method] = self._compile(endpoint, view, method)
        return plan

    def _compile(self, endpoint: str, view: View, method: str) -> ViewPlan:
        route = find_route(self.app, endpoint, view, method)
        check_methods(self.app, route)
        return ViewPlan(view, route, stores_of_route(self.installations, route))

    def _stores_of_function(self, layer: Layer, asked: Request) -> tuple[StoreRules, ...]:
        """Return what decides a decorated function that a request calls beside its view."""
        key = _counted_place(asked)
        stores = self._functions.get(layer, {}).get(key)
        if stores is None:
            with self._compiling():
                route = self._route(*key)
                check_methods(self.app, route, layer.marks)
                stores = stores_of_function(self.installations, layer, route)
                self._functions.setdefault(layer, {})[key] = stores
        return stores

    def _compile_block(
        self, options: LimitOptions, limiter: Owner | None, endpoint: str, method: str
    ) -> tuple[StoreRules, ...]:
        with self._compiling():
            mark, route = Mark(options, limiter), self._route(endpoint, method)
            check_methods(self.app, route, (mark,))
            return stores_of_block(self.installations, mark, route)

    def _route(self, endpoint: str, method: str) -> Route:
        """Return a route, or what a request has that goes to no view, as a hook sees it."""
        view = self.app.view_functions.get(endpoint)
        return Route(endpoint, method) if view is None else find_route(self.app, endpoint, view, method)


def _begin_ledger(asked: Request, plan: ViewPlan) -> Ledger:
    ledger = Ledger(CURRENT, plan)
    setattr(asked, LEDGER, ledger)
    return ledger


def _counted_place(asked: Request) -> tuple[str, str]:
    """Return the endpoint and the HTTP method that a call within a request counts for.

    A request that matches no route may name any method, as many as it likes.
    """
    if asked.url_rule is not None or asked.method.lower() in http_method_funcs:
        return asked.endpoint or "", asked.method
    return "", "OTHER"


def _set(headers: Headers, fields: list[tuple[str, str]]) -> None:
    # Headers.add looks for line breaks, of which none is in ours: that would cost as much as deciding.
    present: list[tuple[str, str]] | None = getattr(headers, "_list", None)
    if present is not None and _OTHER_NAMES.issuperset([name for name, _ in present]):
        present += fields
        return
    for name, value in fields:
        headers.set(name, value)


class _Module:
    """Stands for the ``rate_limit`` of the module, which never has an app of its own."""


_MODULE = _Module()
_waiting: WeakSet[object] = WeakSet()
_changing = PerProcess(threading.Lock)


def wait_for_apps(limiter: object | None) -> None:
    """Set an app up at its first request, which may have limits of a RateLimit that has no app yet.

    None: it may have limits of the module's ``rate_limit``. An app without a RateLimit notices neither a
    decorator above ``@app.route`` nor one on a blueprint, as no call passes through them. Flask's signal
    tells of every request of every app, which costs them all something; it is listened to only as long as
    such a decorator may be there.
    """
    with _changing():
        _waiting.add(_MODULE if limiter is None else limiter)
        request_started.connect(_set_up)


def has_an_app(limiter: object) -> None:
    """Note that a RateLimit has an app now, whose requests it sees itself."""
    with _changing():
        _waiting.discard(limiter)
        if not _waiting:
            request_started.disconnect(_set_up)


def _set_up(app: Flask, **_: object) -> None:
    AppState.of(app)
