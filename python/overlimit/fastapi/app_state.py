"""What ``app.state.overlimit`` holds: an app's RateLimits and the compiled plans of its routes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet

from fastapi import FastAPI
from starlette.applications import Starlette

from overlimit import errors
from overlimit.fastapi.conversation import Conversation
from overlimit.fastapi.errors import RefusedRequest, answer_refusal, noting_refusals
from overlimit.fastapi.routes import LimitedRoute, find_routes, route_at
from overlimit.http.app_state import AppStateByNumbers
from overlimit.http.asgi.conversations import CONVERSATION, ConversationMiddleware, current
from overlimit.http.asgi.requests import ASGIApp, Scope, Send
from overlimit.http.asgi.routes import LimitedApp
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.identifying.default import by_address_and_user
from overlimit.http.openapi import with_refusals
from overlimit.http.options.settings import Settings
from overlimit.http.rules.app_rate_limits import RateLimitHandle
from overlimit.http.rules.called_routes import Found, warn_of_lost


class AppState(AppStateByNumbers):
    """The RateLimits of one app and the plans of its routes."""

    def __init__(self, app: FastAPI) -> None:
        """Add a middleware, and the answer 429 to its OpenAPI; `of` makes one state per app."""
        super().__init__(app, app.title, by_address_and_user)
        self.app = app
        self._found: Found[LimitedRoute] = Found([], [], [])
        self._warned_of: list[object] = []
        self._check_is_new()
        app.add_middleware(ConversationMiddleware, begin=self._begin)
        self._taught: WeakSet[Starlette] = WeakSet()
        self._teach(app)

    @classmethod
    def of(cls, app: FastAPI) -> AppState:
        """Return the state of the app, made at first use."""
        state: AppState | None = cls.known(app)
        if state is None:
            state = app.state.overlimit = cls(app)
        return state

    @staticmethod
    def known(app: Starlette) -> AppState | None:
        """Return the state of the app, if it has one."""
        found: AppState | None = getattr(app.state, "overlimit", None)
        return found

    def register(self, handle: RateLimitHandle, settings: Settings) -> None:
        """Add a RateLimit."""
        if self.rate_limits.first is None:
            self._check_is_new()
        super().register(handle, settings)

    def _check_is_new(self) -> None:
        if self.app.middleware_stack is not None:
            raise RuntimeError("call init_app(app) before the app is started: it adds a middleware")

    def _begin(self, scope: Scope, send: Send) -> Conversation | None:
        self.prepare()
        is_within = CONVERSATION in scope and not self.has_limits
        return None if is_within else Conversation(self, send)

    @property
    def has_limits(self) -> bool:
        """Whether it has a RateLimit, and not only notices limits of one that it lacks."""
        return self.rate_limits.first is not None

    def knows(self, app: Starlette) -> bool:
        """Return whether it is the app, or one whose routes were found in it."""
        return app in self._taught

    def prepare(self) -> None:
        """Look for the routes of the app, unless it has as many as before, and the same dependencies."""
        if self._found.has_changed():
            with self.rate_limits.lock():
                self._prepare()

    def _prepare(self) -> None:
        found = find_routes(self.app, _has_limits)
        self.number(found.routes)
        for app in found.apps:
            self._teach(app)
        found.keep_shape()
        if not any(replaced for _, replaced in found.overrides):
            warn_of_lost(self.rate_limits, self.app_name, found.routes, self._warned_of)
        self._found = found
        self.plans.clear()

    def _teach(self, app: Starlette) -> None:
        """Have the app, or one that is mounted in it, answer refusals and describe them."""
        if app in self._taught:
            return
        self._taught.add(app)
        for kind in (errors.RateLimitExceeded, RefusedRequest):
            app.exception_handlers.setdefault(kind, answer_refusal)
        build = partial(noting_refusals, app.build_middleware_stack, app)
        app.build_middleware_stack = build  # type: ignore[method-assign]
        if isinstance(app, FastAPI):
            app.openapi = partial(self._describe_then, app.openapi)  # type: ignore[method-assign]

    def plan_of(self, route: LimitedRoute, scope: Scope) -> RoutePlan | None:
        """Return the plan of a route for a request to it; None: it is not limited."""
        method = scope.get("method", "GET")
        if method == "OPTIONS" or (route.is_endpoint and not route.answers(scope)):
            return None
        plan = self.plans.of_route(self.numbers[route], method.upper(), route.handler)
        return plan if plan.stores else None

    def plan_at(self, method: str, path: str) -> RoutePlan | None:
        """Return the plan of a request, by the routes of the app and of those that are mounted in it."""
        self.prepare()
        owner, target, place, in_path = route_at(self.app, method, path, _has_limits)
        state = AppState.known(owner)
        if state is None:
            return None
        state.prepare()
        if not isinstance(getattr(target, "app", None), LimitedApp):
            return None  # such as files
        route = target.app.reached(state.numbers, place.prefix)
        plan = None if route is None else state.plan_of(route, {"method": method})
        return plan if plan is None or route.decides_on(plan, in_path) else None

    def _describe_then(self, openapi: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        self.prepare()
        for route in self._found.routes:
            described = list(self.described(route))
            rules = [rule for each in described for rule in self.rules_of(each)]
            for each in described:  # whose parameters are shown with those of the path function
                route.supply(self.plans.of_route(self.numbers[route], each.method, route.handler))
            if hasattr(route.target, "responses"):  # of FastAPI, not of Starlette
                route.target.responses = with_refusals(route.target.responses, rules)
        return openapi()


def _has_limits(app: Starlette) -> bool:
    state = AppState.known(app)
    return state is not None and state.has_limits


_build = FastAPI.build_middleware_stack


def watch_apps() -> None:
    """Set up each app that starts from now on, as there is a function with limits that it may call.

    A decorator leaves a function as it is, so an app without a RateLimit would never notice it.
    """
    FastAPI.build_middleware_stack = _set_up_then_build  # type: ignore[method-assign, assignment]


def _set_up_then_build(app: FastAPI) -> ASGIApp:
    """Build what an app is called by, with its state.

    An app that starts during a request is mounted, and limited with the app it is mounted in if that has
    found it.
    """
    around = current.get()
    if AppState.known(app) is None and (around is None or not around.state.knows(app)):
        AppState.of(app)
        return app.build_middleware_stack()
    return _build(app)
