"""The routes of an app, found wherever they are, and decided just before their path functions are called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

from fastapi import FastAPI
from fastapi.dependencies.utils import get_dependant
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import HTTPConnection, Request
from starlette.routing import BaseRoute, Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from overlimit.fastapi.conversation import Conversation, StarletteRequest
from overlimit.http.asgi.conversations import CONVERSATION
from overlimit.http.asgi.requests import ASGIApp, Receive, Replay, Scope, Send, read_json
from overlimit.http.callables import is_coroutine_function
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.middleware import apps_within
from overlimit.http.rules.called_routes import CalledRoute

_CONNECTION = "connection of overlimit"
"""What a path function is given that has no parameter for its connection; no parameter can be called so."""


@dataclass(eq=False)
class LimitedRoute(CalledRoute):
    """A route that can be limited; the handshake of a websocket is a GET."""

    target: Any
    """The route, or what FastAPI has in its place for a router that was included."""
    decides_first: bool
    """Whether there is nothing that could be waited for, or no place behind it to decide."""

    def __post_init__(self) -> None:
        self.is_endpoint = isinstance(self.handler, type) and issubclass(self.handler, HTTPEndpoint)
        """Whether it is a class that has a method for each of HTTP that it takes."""

    @classmethod
    def of(
        cls,
        target: Any,
        handler: Callable[..., Any],
        *,
        decides_first: bool,
    ) -> LimitedRoute:
        """Describe a route, a mounted app or a host, which have their paths by different names."""
        names = ("path_format", "path", "host")  # a Host has only the last
        path = next(str(getattr(target, name)) for name in names if hasattr(target, name))
        methods = tuple(sorted(getattr(target, "methods", None) or ("GET",)))
        is_of_framework = getattr(handler, "__module__", "") == FastAPI.__module__  # as its pages on the API
        return cls(handler, path, methods, (), not is_of_framework, target, decides_first)

    def answers(self, scope: Scope) -> bool:
        """Return whether the app answers a request; a class that lacks the method says 405."""
        return not self.is_endpoint or self.method_handler(scope["method"]) is not None


@dataclass
class Found:
    """What was found in an app."""

    routes: list[LimitedRoute]
    lists: list[Sequence[BaseRoute]]
    """The lists of routes that were looked through."""
    apps: list[Starlette]
    """The app, and those that are mounted in it."""
    _lengths: list[tuple[Sequence[BaseRoute], int]] | None = None
    overrides: tuple[tuple[FastAPI, dict[Any, Any]], ...] = ()
    """By app the dependencies that have been replaced, as tests do."""

    def keep_shape(self) -> None:
        """Note what `has_changed` compares."""
        self._lengths = [(routes, len(routes)) for routes in self.lists]
        apps = (each for each in self.apps if isinstance(each, FastAPI))
        self.overrides = tuple((each, dict(each.dependency_overrides)) for each in apps)

    def has_changed(self) -> bool:
        """Return whether there are more routes or fewer by now, or dependencies have been replaced."""
        if self._lengths is None:
            return True
        for routes, length in self._lengths:
            if len(routes) != length:
                return True
        for app, overrides in self.overrides:  # noqa: SIM110 - at each request, and a generator costs more
            if app.dependency_overrides != overrides:
                return True
        return False


def find_routes(app: Starlette, has_its_own: Callable[[Starlette], bool]) -> Found:
    """Find all routes of an app but those of mounted apps that have limits of their own."""
    found = Found([], [], [app])

    def look_through(routes: Sequence[BaseRoute], owner: object) -> None:
        found.lists.append(routes)
        for route in routes:
            look_at(route, owner)

    def look_at(route: Any, owner: object) -> None:
        if isinstance(route, (Route, WebSocketRoute)):
            found.routes.append(_limited(route, owner))
        elif isinstance(route, (Mount, Host)):
            look_into(route, _without_middleware(getattr(route, "_base_app", route.app)))
        elif hasattr(route, "effective_route_contexts"):  # an included router, which FastAPI keeps apart
            found.lists += _lists_of(route)
            for context in route.effective_route_contexts():
                if context.starlette_route is not None:
                    look_at(context.starlette_route, owner)
                elif context.app is not None:
                    found.routes.append(_limited(context, owner))

    def look_into(mount: Any, inner: Any) -> None:
        if isinstance(inner, Starlette):
            if has_its_own(inner):
                return
            found.apps.append(inner)
        if hasattr(inner, "routes"):
            look_through(inner.routes or (), inner)
        elif not isinstance(inner, StaticFiles):
            found.routes.append(_limited_mount(mount, inner))

    look_through(app.routes, app)
    return found


def _without_middleware(mounted: ASGIApp) -> Any:
    """Return the app of Starlette within what is mounted, or all of it if there is none."""
    found = (each for each in apps_within(mounted) if isinstance(each, (Starlette, Router)))
    return next(found, mounted)


def _lists_of(included: Any) -> Iterator[Sequence[BaseRoute]]:
    routes = included.original_router.routes
    yield routes
    for route in routes:
        if hasattr(route, "original_router"):
            yield from _lists_of(route)


def _limited(target: Any, owner: object) -> LimitedRoute:
    """Have a route of an app ask its conversation; the same as before if it does so already."""
    dependant = getattr(target, "dependant", None)
    if not isinstance(target.app, _LimitedApp):
        handler = target.endpoint
        is_last = dependant is not None and not _is_generator(handler)
        target.app = _LimitedApp(target.app, LimitedRoute.of(target, handler, decides_first=not is_last))
        if is_last:
            _limit_call(dependant, isinstance(target, WebSocketRoute))
    route: LimitedRoute = target.app.route
    # A route of a websocket does not tell who overrides its dependencies.
    provider = getattr(target, "dependency_overrides_provider", None) or owner
    overrides = getattr(provider, "dependency_overrides", None) or {}
    route.dependencies = tuple(_dependencies_of(dependant, overrides))
    return route


def _limited_mount(mount: Any, inner: ASGIApp) -> LimitedRoute:
    """Have a mounted app without routes that could be found be decided as one; the same if it is already."""
    if not isinstance(mount.app, _LimitedApp):
        mount.app = _LimitedApp(mount.app, LimitedRoute.of(mount, inner, decides_first=True))
    route: LimitedRoute = mount.app.route
    return route


def _is_generator(handler: Callable[..., Any]) -> bool:
    """Return whether the response begins before anything of the function has run."""
    function = inspect.unwrap(handler)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _dependencies_of(dependant: Any, overrides: dict[Any, Any]) -> Iterator[Callable[..., Any]]:
    """Yield what is called before a path function, in the place of dependencies what overrides them."""
    for each in () if dependant is None else dependant.dependencies:
        call = overrides.get(each.call, each.call)
        yield call
        called = each if call is each.call else get_dependant(path="/", call=call)
        yield from _dependencies_of(called, overrides)


class _LimitedApp:
    """What answers on a route, with the plan of the route noted in its conversation."""

    def __init__(self, app: ASGIApp, route: LimitedRoute) -> None:
        self.app, self.route = app, route

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        conversation: Conversation | None = scope.get(CONVERSATION)
        plan = None if conversation is None else conversation.state.plan_of(self.route, scope)
        if conversation is None or plan is None:
            return self.app(scope, receive, send)
        request = StarletteRequest(scope)
        conversation.begin(plan, request, send)
        if not (plan.needs_body or plan.before_validation or self.route.decides_first):
            return self.app(scope, receive, send)
        return self._read_then_decide(plan, conversation, request, receive, send)

    async def _read_then_decide(
        self,
        plan: RoutePlan,
        conversation: Conversation,
        request: StarletteRequest,
        receive: Receive,
        send: Send,
    ) -> None:
        scope = request.scope
        if plan.needs_body:
            receive = await read_json(request, receive)
        if not (plan.before_validation or self.route.decides_first):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            if await conversation.admit(WebSocket(scope, receive, send)):
                await self.app(scope, receive, send)
        else:
            replay = Replay(receive)
            response = await conversation.decide(Request(scope, replay.receive))
            await (self.app if response is None else response)(scope, replay.receive_again, send)


# The path function stays what it is: FastAPI calls what is put before it with the same values, and as it
# would call the function itself, on the event loop or in a thread.
def _limit_call(dependant: Any, is_websocket: bool) -> None:
    """Decide between the validation and the call of a path function, which is given its connection."""
    call = dependant.call
    field = "websocket_param_name" if is_websocket else "request_param_name"
    given: str | None = getattr(dependant, field)
    name = given or _CONNECTION
    setattr(dependant, field, name)
    in_path = {each.alias: each.name for each in dependant.path_params}

    def undecided(values: dict[str, Any]) -> tuple[HTTPConnection, Conversation | None]:
        connection: HTTPConnection = values[name] if given else values.pop(name)
        conversation: Conversation | None = connection.scope.get(CONVERSATION)
        if conversation is None or conversation.plan is None:
            return connection, None
        if in_path:
            conversation.note_values({alias: values.get(each) for alias, each in in_path.items()})
        return connection, conversation

    @wraps(call)
    async def admit_then_await(**values: Any) -> Any:
        connection, conversation = undecided(values)
        if conversation is not None and not await conversation.admit(cast(WebSocket, connection)):
            return None
        return await call(**values)

    @wraps(call)
    async def decide_then_await(**values: Any) -> Any:
        connection, conversation = undecided(values)
        if conversation is not None:
            response = await conversation.decide(connection)
            if response is not None:
                return response
        return await call(**values)

    @wraps(call)
    def decide_then_call(**values: Any) -> Any:
        connection, conversation = undecided(values)
        response = None if conversation is None else conversation.decide_in_thread(connection)
        return call(**values) if response is None else response

    if is_websocket:
        dependant.call = admit_then_await
    else:
        awaits = is_coroutine_function(inspect.unwrap(call))
        dependant.call = decide_then_await if awaits else decide_then_call
