"""What ``app.extensions["overlimit"]`` holds: an app's RateLimits and the compiled plans of its routes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from flask import Flask, Request

from overlimit.flask.bindings import Bindings
from overlimit.flask.compiling import call_batches, route_batches
from overlimit.flask.current import this_request
from overlimit.flask.layer import Layer
from overlimit.flask.ledger import Batch, ledger_of
from overlimit.flask.marks import Mark
from overlimit.flask.routes import View, find_route
from overlimit.flask.settings import Settings

if TYPE_CHECKING:
    from overlimit.flask.extension import RateLimit

__all__ = ["AppState", "RoutePlan"]

_EXTENSION = "overlimit"
_creating = threading.Lock()


class RoutePlan(NamedTuple):
    """What decides a request to one endpoint, and where."""

    view: View | None
    marks: frozenset[Mark]
    view_decides: bool
    batches: tuple[Batch, ...]


_NO_VIEW = RoutePlan(None, frozenset(), view_decides=False, batches=())


class AppState:
    """The RateLimits of one app and its plans; safe for threads.

    A plan is compiled at the first request that needs it and kept until a RateLimit is registered or the view
    of its endpoint is replaced.
    """

    def __init__(self, app: Flask) -> None:
        """Take over the dispatching of the app; `of` makes one per app."""
        self.bindings = Bindings(app.name, app.config)
        self._app = app
        self._routes: dict[tuple[str, str], RoutePlan] = {}
        self._calls: WeakKeyDictionary[Layer, dict[str, tuple[Batch, ...]]] = WeakKeyDictionary()
        self._compiling = threading.RLock()
        _decide_at_dispatch(app, self)

    @classmethod
    def of(cls, app: Flask) -> AppState:
        """Return the state of the app, made at first use."""
        state: AppState | None = app.extensions.get(_EXTENSION)
        if state is None:
            with _creating:
                state = app.extensions.get(_EXTENSION)
                if state is None:
                    state = app.extensions[_EXTENSION] = cls(app)
        return state

    def register(self, limiter: RateLimit, settings: Settings) -> None:
        """Add a RateLimit.

        Raises
        ------
        InvalidLimit
            A default or application limit is malformed.
        """
        with self._compiling:
            self.bindings.register(limiter, settings)
            self._routes.clear()
            self._calls.clear()

    def _route_plan(self, asked: Request) -> RoutePlan:
        """Return the plan for the endpoint and method of a request."""
        endpoint, method = asked.endpoint, asked.method
        view = None if endpoint is None else self._app.view_functions.get(endpoint)
        if view is None or endpoint is None:
            return _NO_VIEW
        plan = self._routes.get((endpoint, method))
        if plan is None or plan.view is not view:
            with self._compiling:
                plan = self._routes[endpoint, method] = self._compile(endpoint, view, method)
        return plan

    def _call_batches(self, layer: Layer, endpoint: str) -> tuple[Batch, ...]:
        """Return what decides a decorated function that a request calls beside its view."""
        known = self._calls.get(layer, {})
        batches = known.get(endpoint)
        if batches is None:
            with self._compiling:
                batches = call_batches(self.bindings, layer, endpoint)
                self._calls.setdefault(layer, {})[endpoint] = batches
        return batches

    def enforce(self, layer: Layer, asked: Request) -> None:
        """Decide the request if that is up to this decorator.

        Raises
        ------
        RateLimitExceeded
            The request is refused.
        """
        plan = self._route_plan(asked)
        if layer.marks[0] not in plan.marks:
            ledger_of(asked).decide(self._call_batches(layer, asked.endpoint or ""))
        elif layer.innermost:
            ledger_of(asked).decide_route(plan.batches)

    def enforce_before_view(self, asked: Request) -> None:
        """Decide the request if none of our decorators is on the way to its view.

        Raises
        ------
        RateLimitExceeded
            The request is refused.
        """
        plan = self._route_plan(asked)
        if plan.batches and not plan.view_decides:
            ledger_of(asked).decide_route(plan.batches)

    def _compile(self, endpoint: str, view: View, method: str) -> RoutePlan:
        route = find_route(self._app, endpoint, view, method)
        marks = frozenset(mark for _, mark in route.labelled)
        return RoutePlan(view, marks, route.view_decides, route_batches(self.bindings, route))


def _decide_at_dispatch(app: Flask, state: AppState) -> None:
    dispatch = app.dispatch_request

    # Wrapped on the app: the one place behind every before_request hook, whenever hook and view are made,
    # and inside what turns exceptions into responses.
    def decide_then_dispatch(*args: Any) -> Any:
        asked = this_request()
        if asked is not None and asked.method != "OPTIONS":
            state.enforce_before_view(asked)
        return dispatch(*args)

    app.dispatch_request = decide_then_dispatch  # type: ignore[method-assign]
