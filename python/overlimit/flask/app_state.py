"""What ``app.extensions["overlimit"]`` holds: an app's RateLimits and the compiled plans of its routes."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from flask import Flask, Request, Response
from flask.views import http_method_funcs

from overlimit._forks import PerProcess
from overlimit.flask.batch import Batch
from overlimit.flask.bindings import Bindings, Registrant
from overlimit.flask.compiling import block_batches, call_batches, route_batches
from overlimit.flask.current import EXTENSION, current_request
from overlimit.flask.exceeded import Refusal
from overlimit.flask.layer import Layer
from overlimit.flask.ledger import LEDGER, Ledger
from overlimit.flask.marks import Mark, Owner
from overlimit.flask.methods import check_methods
from overlimit.flask.retry_after import note_refusal
from overlimit.flask.route_plan import NO_PLAN, RoutePlan
from overlimit.flask.routes import Route, View, find_route, no_route
from overlimit.flask.settings import Settings
from overlimit.http.options import LimitOptions
from overlimit.http.plan import MOST_PLANS
from overlimit.limiter import warn_of_other_processes

__all__ = ["AppState"]

_creating = PerProcess(threading.Lock)


class AppState:
    """The RateLimits of one app and its plans; safe for threads.

    A plan is compiled at the first request that needs it and kept until a RateLimit is registered or told of
    an exemption, or the view of its endpoint is replaced.
    """

    def __init__(self, app: Flask) -> None:
        """Stand around the app's dispatching, its errors and its responses; `of` makes one per app."""
        self.app = app
        self.bindings = Bindings(app.name, app.config)
        self._routes: dict[tuple[str, str], RoutePlan] = {}
        self._calls: WeakKeyDictionary[Layer, dict[tuple[str, str], tuple[Batch, ...]]] = WeakKeyDictionary()
        self._block_batches = lru_cache(MOST_PLANS)(self._compile_block)
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

    def register(self, limiter: Registrant, settings: Settings) -> None:
        """Add a RateLimit.

        Raises
        ------
        InvalidLimit
            A limit in the configuration is malformed.
        ValueError, TypeError
            Another key of the configuration has a value that cannot be.
        """
        with self._compiling():
            self.bindings.register(limiter, settings)
            self.forget_plans()

    def forget_plans(self) -> None:
        """Compile everything anew when it is needed next."""
        with self._compiling():
            self._routes.clear()
            self._calls.clear()
            self._block_batches.cache_clear()

    def enforce(self, layer: Layer, asked: Request) -> None:
        """Decide the request if that is up to this decorator.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            The request is refused.
        """
        ledger = self._ledger(asked)
        if layer.marks[0] not in ledger.plan.marks:
            ledger.decide(self._looked_at(self._call_batches(layer, asked), asked))
        elif layer.innermost:
            ledger.decide()

    def enforce_block(self, options: LimitOptions, limiter: Owner | None, asked: Request) -> None:
        """Decide the request by the limits of a ``with`` block.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            The request is refused.
        """
        batches = self._block_batches(options, limiter, *_counted_place(asked))
        self._ledger(asked).decide(self._looked_at(batches, asked))

    def _looked_at(self, batches: tuple[Batch, ...], asked: Request) -> tuple[Batch, ...]:
        """Return the batches; warn if they count in memory what several processes serve."""
        if asked.environ.get("wsgi.multiprocess") and any(batch.in_memory for batch in batches):
            warn_of_other_processes(self.app.name)
        return batches

    def _ledger(self, asked: Request) -> Ledger:
        return getattr(asked, LEDGER, None) or Ledger(asked, self._route_plan(asked))

    # Wrapped on the app: the one place behind every before_request hook, whenever hook and view are made,
    # and inside what turns exceptions into responses.
    def _decide_then_dispatch(self, *args: Any) -> Any:
        asked = current_request()
        if asked.method != "OPTIONS":
            plan = self._route_plan(asked)
            if plan.batches:
                if plan.in_memory and asked.environ.get("wsgi.multiprocess"):
                    warn_of_other_processes(self.app.name)
                ledger = getattr(asked, LEDGER, None) or Ledger(asked, plan)
                if not plan.view_decides:
                    ledger.decide()
        return self._dispatch(*args)

    # A refusal may have been made where there is no request, in a thread of the app's own.
    def _note_then_handle(self, *args: Any) -> Any:
        error = args[-1]
        if isinstance(error, Refusal):
            note_refusal(error.decision)
        return self._handle_error(*args)

    # The after_request hooks see the header fields and may change them; whether a request counts is found out
    # behind them, from the response that leaves.
    def _process_between(self, response: Response) -> Response:
        ledger: Ledger | None = getattr(current_request(), LEDGER, None)
        if ledger is None:
            return self._process(response)
        ledger.add_fields(response)
        try:
            response = self._process(response)
        except Exception:
            ledger.note_failed_hook(response)
            raise
        if ledger.returns:
            ledger.give_back(response)
        return response

    def _route_plan(self, asked: Request) -> RoutePlan:
        """Return the plan for the endpoint and method of a request."""
        rule, method = asked.url_rule, asked.method
        if rule is None:
            return NO_PLAN
        endpoint = rule.endpoint
        view = self._views.get(endpoint)
        if view is None:
            return NO_PLAN
        plan = self._routes.get((endpoint, method))
        if plan is None or plan.view is not view:
            with self._compiling():
                plan = self._routes[endpoint, method] = self._compile(endpoint, view, method)
        return plan

    def _call_batches(self, layer: Layer, asked: Request) -> tuple[Batch, ...]:
        """Return what decides a decorated function that a request calls beside its view."""
        key = _counted_place(asked)
        batches = self._calls.get(layer, {}).get(key)
        if batches is None:
            with self._compiling():
                route = self._route(*key)
                check_methods(self.app, route, layer.marks)
                batches = call_batches(self.bindings, layer, route)
                self._calls.setdefault(layer, {})[key] = batches
        return batches

    def _compile(self, endpoint: str, view: View, method: str) -> RoutePlan:
        route = find_route(self.app, endpoint, view, method)
        check_methods(self.app, route)
        batches = route_batches(self.bindings, route)
        in_memory = any(batch.in_memory for batch in batches)
        return RoutePlan(view, frozenset(route.marks), route.view_decides, batches, in_memory)

    def _compile_block(
        self, options: LimitOptions, limiter: Owner | None, endpoint: str, method: str
    ) -> tuple[Batch, ...]:
        with self._compiling():
            mark, route = Mark(options, limiter), self._route(endpoint, method)
            check_methods(self.app, route, (mark,))
            return block_batches(self.bindings, mark, route)

    def _route(self, endpoint: str, method: str) -> Route:
        view = self.app.view_functions.get(endpoint)
        return no_route(endpoint, method) if view is None else find_route(self.app, endpoint, view, method)


def _counted_place(asked: Request) -> tuple[str, str]:
    """Return the endpoint and the HTTP method that a call within a request counts for.

    A request that matches no route may name any method, as many as it likes.
    """
    if asked.url_rule is not None or asked.method.lower() in http_method_funcs:
        return asked.endpoint or "", asked.method
    return "", "OTHER"
