"""Routes that are ASGI apps: each notes in its conversation what is to be decided before it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import Any, TypeVar

from overlimit.http.asgi.conversations import CONVERSATION, BaseConversation
from overlimit.http.asgi.requests import ASGIApp, AsgiRequest, Receive, Scope, Send, read_json
from overlimit.http.callables import function_name
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.rules.called_routes import Place

R = TypeVar("R")


class LimitedApp:
    """What answers on a route, with the plan of the route noted in its conversation.

    A route is a ``CalledRoute`` that also says whether a request is decided before the framework does
    anything with it (``is_decided_first``), and has the framework supply what functions are given besides the
    request: with all that it does (``supply``), or before anything else (``resolved_first``).
    """

    def __init__(self, app: ASGIApp) -> None:
        """Take what answered until now, which is found as ``app``."""
        self.app = app
        self._routes: dict[str, Any] = {}

    @classmethod
    def route_at(cls, target: Any, place: Place, make: Callable[[Place], R]) -> R:
        """Return a route as it is reached through the mounts of a place, always the same.

        ``target`` is a route of the framework, a mounted app or a host; it answers by this from then on.
        """
        if not isinstance(target.app, cls):
            target.app = cls(target.app)
        routes: dict[str, R] = target.app._routes
        if place.prefix not in routes:
            routes[place.prefix] = make(place)
        return routes[place.prefix]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Have the app answer, once what is to be decided first is."""
        conversation: BaseConversation | None = scope.get(CONVERSATION)
        route = (
            None if conversation is None else self.reached(conversation.state.numbers, conversation.prefix)
        )
        if conversation is None or route is None:
            self._check_is_free(scope)
            return self.app(scope, receive, send)
        plan = conversation.state.plan_of(route, scope)
        if plan is None:
            return self.app(scope, receive, send)
        request = conversation.request_of(scope)
        conversation.begin(plan, request, send)
        is_first = route.is_decided_first(plan)
        if plan.supplied:
            route.supply(plan)
        if not (plan.needs_body or is_first or conversation.ledger):
            return self.app(scope, receive, send)
        app = partial(conversation.decide_then_answer, self.app) if is_first else self.app
        if plan.supplied and is_first:
            app = partial(route.resolved_first(plan.supplied), app)
        return _read_then_answer(conversation, plan, request, app, receive, send)

    def reached(self, known: Container[object], prefix: str) -> Any:
        """Return the known route by its mounts; one by a way that nobody knows of is not unlimited."""
        route = self._routes.get(prefix)
        return (
            route if route in known else next((each for each in self._routes.values() if each in known), None)
        )

    def _check_is_free(self, scope: Scope) -> None:
        """Raise RuntimeError if a route has limits, where it is of an app that was not found."""
        route = next(iter(self._routes.values()))
        for _ in route.described("", scope.get("method", "GET")).applied_limits:
            raise RuntimeError(
                f"{function_name(route.handler)} is limited, but its app has no RateLimit, nor is found in "
                "one that has: call init_app(app), and have what wraps a mounted app keep it as self.app"
            )


async def _read_then_answer(
    conversation: BaseConversation,
    plan: RoutePlan,
    request: AsgiRequest,
    app: ASGIApp,
    receive: Receive,
    send: Send,
) -> None:
    await conversation.give_back()
    if plan.needs_body:
        receive = await read_json(request, receive)
    await app(request.scope, receive, send)
