"""The routes of an app, found wherever they are, and decided just before their path functions are called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from itertools import chain
from typing import Any, cast

from fastapi import FastAPI
from fastapi.dependencies.utils import get_dependant, request_params_to_args
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute, Host, Match, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from overlimit.fastapi.conversation import Conversation
from overlimit.fastapi.option_dependencies import ResolvedFirst, Supply, depend_on
from overlimit.http.asgi.conversations import CONVERSATION, current
from overlimit.http.asgi.requests import ASGIApp, Receive, Scope, Send
from overlimit.http.asgi.routes import LimitedApp
from overlimit.http.callables import is_coroutine_function, is_generator
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.middleware import apps_within
from overlimit.http.rules.called_routes import CalledRoute, Found, Place

_CONNECTION = "connection of overlimit"
"""What a path function is given that has no parameter for its connection; no parameter can be called so."""


@dataclass(eq=False)
class LimitedRoute(CalledRoute):
    """A route that can be limited; the handshake of a websocket is a GET."""

    target: Any
    """The route, or what FastAPI has in its place for a router that was included."""
    decides_first: bool
    """Whether there is nothing that could be waited for, or no place behind it to decide."""
    overridden_by: object
    """What has ``dependency_overrides``; None: nothing."""

    def __post_init__(self) -> None:
        self._resolved_first: dict[tuple[Any, ...], ResolvedFirst] = {}
        self.is_endpoint = isinstance(self.handler, type) and issubclass(self.handler, HTTPEndpoint)
        """Whether it is a class that has a method for each of HTTP that it takes."""

    @classmethod
    def of(cls, target: Any, place: Place) -> LimitedRoute:
        """Describe a route of an app."""
        handler, path = target.endpoint, getattr(target, "path_format", target.path)
        methods = tuple(sorted(getattr(target, "methods", None) or ("GET",)))
        is_of_framework = getattr(handler, "__module__", "") == FastAPI.__module__  # as its pages on the API
        is_last = getattr(target, "dependant", None) is not None and not is_generator(inspect.unwrap(handler))
        # A route of a websocket does not tell who overrides its dependencies.
        overridden_by = getattr(target, "dependency_overrides_provider", None) or place.overridden_by
        described = handler, place.app, place.prefix, path, methods, ()
        return cls(*described, not is_of_framework, target, not is_last, overridden_by)

    @classmethod
    def of_mount(cls, mount: Any, inner: ASGIApp, place: Place) -> LimitedRoute:
        """Describe what is mounted and has no routes that could be found."""
        prefix = place.prefix + _path_of(mount)
        return cls(inner, inner, prefix, "", ("GET",), (), True, mount, True, place.overridden_by)

    def is_decided_first(self, plan: RoutePlan) -> bool:
        """Return whether a request is decided before FastAPI validates it and resolves its dependencies."""
        return plan.before_validation or self.decides_first

    def decides_on(self, plan: RoutePlan, in_path: Mapping[str, Any]) -> bool:
        """Return whether a request is decided: FastAPI refuses values in its path that are invalid first."""
        dependant = getattr(self.target, "dependant", None)
        if dependant is None or self.is_decided_first(plan):
            return True
        _, errors = request_params_to_args(list(_parameters_in_path(dependant)), in_path)
        return not errors

    def supply(self, plan: RoutePlan) -> None:
        """Have FastAPI resolve what functions of the plan depend on, with what the path function does."""
        if plan.supplied and not self.is_decided_first(plan):
            depend_on(self.target.dependant, plan.supplied, self.path)

    def resolved_first(self, functions: tuple[Any, ...]) -> ResolvedFirst:
        """Return what has FastAPI resolve what functions depend on before anything else."""
        if functions not in self._resolved_first:
            self._resolved_first[functions] = ResolvedFirst(functions, self.path, self.overridden_by)
        return self._resolved_first[functions]

    def answers(self, scope: Scope) -> bool:
        """Return whether the app answers a request; a class that lacks the method says 405."""
        return not self.is_endpoint or self.method_handler(scope["method"]) is not None


def find_routes(app: Starlette, has_its_own: Callable[[Starlette], bool]) -> Found[LimitedRoute]:
    """Find all routes of an app but those of mounted apps that have limits of their own."""
    found: Found[LimitedRoute] = Found([], [], [app])

    def look_through(routes: Sequence[BaseRoute], place: Place) -> None:
        found.lists.append(routes)
        found.lists += chain.from_iterable(map(_lists_of, routes))
        for route in _in_order(routes):
            if isinstance(route, (Mount, Host)):
                look_into(route, _mounted(route), place)
            else:
                found.routes.append(_limited(route, place))

    def look_into(mount: Any, inner: Any, place: Place) -> None:
        if isinstance(inner, Starlette):
            if has_its_own(inner):
                return
            found.apps.append(inner)
        if hasattr(inner, "routes"):
            _note_passing(mount)
            look_through(inner.routes or (), place.below(_path_of(mount), inner))
        elif not isinstance(inner, StaticFiles):
            # What has no routes that could be found is decided as one.
            of_mount = partial(LimitedRoute.of_mount, mount, inner)
            found.routes.append(LimitedApp.route_at(mount, place, of_mount))

    look_through(app.routes, Place(app, overridden_by=app))
    return found


def route_at(
    app: Starlette, method: str, path: str, has_its_own: Callable[[Starlette], bool]
) -> tuple[Starlette, Any, Place, Mapping[str, Any]]:
    """Return whose limits hold for a request, the app's or those of a mounted one that has its own.

    And what answers it, None if nothing does, the place of that in the app, and the parameters in the path.
    """
    scope: Scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    place, inner, target = Place(app), app, None
    while hasattr(inner, "routes"):
        if inner is not app and isinstance(inner, Starlette) and has_its_own(inner):
            app, place = inner, Place(inner)
        target = _matching(inner.routes or (), scope)
        if not isinstance(target, (Mount, Host)):
            break
        inner = _mounted(target)
        if hasattr(inner, "routes"):
            place = place.below(_path_of(target), inner)
    return app, target, place, scope.get("path_params", {})


def _matching(routes: Iterable[BaseRoute], scope: Scope) -> Any:
    """Return the first route that takes a request, whose scope becomes that behind it."""
    for route in _in_order(routes):
        match, below = route.matches(scope)
        if match is Match.FULL:
            scope.update(below)
            return route
    return None


def _in_order(routes: Iterable[Any]) -> Iterator[Any]:
    """Yield the routes that can be limited, and what is mounted, in the order that requests are compared."""
    for route in routes:
        if hasattr(route, "effective_route_contexts"):  # an included router, which FastAPI keeps apart
            for context in route.effective_route_contexts():
                if context.starlette_route is not None:
                    yield from _in_order((context.starlette_route,))
                elif context.app is not None:
                    yield context
        elif isinstance(route, (Route, WebSocketRoute, Mount, Host)):
            yield route


def _mounted(mount: Any) -> Any:
    """Return what is mounted, without the middleware around it."""
    return _without_middleware(getattr(mount, "_base_app", mount.app))


def _path_of(mount: Any) -> str:
    """Return the path of a Mount, or the host of a Host."""
    return str(mount.host if isinstance(mount, Host) else mount.path)


def _note_passing(mount: Any) -> None:
    """Have the conversation note that a request passes a mount, by which routes of one app are told apart."""
    if getattr(vars(mount).get("handle"), "args", ())[:1] != (mount,):
        mount.handle = partial(_pass, mount, partial(type(mount).handle, mount))


def _pass(mount: Any, handle: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    conversation: Conversation | None = scope.get(CONVERSATION)
    if conversation is not None:
        conversation.prefix += _path_of(mount)
    return handle(scope, receive, send)


def _without_middleware(mounted: ASGIApp) -> Any:
    """Return the app of Starlette within what is mounted, or all of it if there is none."""
    found = (each for each in apps_within(mounted) if isinstance(each, (Starlette, Router)))
    return next(found, mounted)


def _lists_of(route: Any) -> Iterator[Sequence[BaseRoute]]:
    """Yield the lists of routes in an included router."""
    if hasattr(route, "original_router"):
        yield route.original_router.routes
        yield from chain.from_iterable(map(_lists_of, route.original_router.routes))


def _limited(target: Any, place: Place) -> LimitedRoute:
    """Have a route of an app ask its conversation; the same as before if it does so already."""
    dependant = getattr(target, "dependant", None)
    is_new = not isinstance(target.app, LimitedApp)
    route = LimitedApp.route_at(target, place, partial(LimitedRoute.of, target))
    if is_new and dependant is not None:
        _limit_call(dependant, isinstance(target, WebSocketRoute))
    overrides = getattr(route.overridden_by, "dependency_overrides", None) or {}
    route.dependencies = tuple(_dependencies_of(dependant, overrides))
    return route


def _dependencies_of(dependant: Any, overrides: dict[Any, Any]) -> Iterator[Callable[..., Any]]:
    """Yield what is called before a path function, in the place of dependencies what overrides them."""
    for each in () if dependant is None else dependant.dependencies:
        if isinstance(each.call, Supply):  # of which only functions of limits know
            continue
        call = overrides.get(each.call, each.call)
        yield call
        called = each if call is each.call else get_dependant(path="/", call=call)
        yield from _dependencies_of(called, overrides)


def _parameters_in_path(dependant: Any) -> Iterator[Any]:
    yield from dependant.path_params
    yield from chain.from_iterable(map(_parameters_in_path, dependant.dependencies))


def _noted(stream: Any) -> Any:
    """Return a stream, which ends with the response that is made of it."""
    conversation = current.get()
    if conversation is not None:
        conversation.note_stream(stream)
    return stream


def _with_stream(answer: Any) -> Any:
    """Return what a path function returned, whose stream is noted if it is a response that has one."""
    if isinstance(answer, Response) and hasattr(answer, "body_iterator"):
        _noted(answer.body_iterator)
    return answer


# The path function stays what it is: FastAPI calls what is put before it with the same values, and as it
# would call the function itself, on the event loop or in a thread.
def _limit_call(dependant: Any, is_websocket: bool) -> None:
    """Decide between the validation and the call of a path function, which is given its connection."""
    call = dependant.call
    if is_generator(inspect.unwrap(call)):  # whose response begins before it runs, so it is decided before
        dependant.call = wraps(call)(lambda **values: _noted(call(**values)))
        return
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
        return _with_stream(await call(**values))

    @wraps(call)
    def decide_then_call(**values: Any) -> Any:
        connection, conversation = undecided(values)
        response = None if conversation is None else conversation.decide_in_thread(connection)
        return _with_stream(call(**values)) if response is None else response

    if is_websocket:
        dependant.call = admit_then_await
    else:
        awaits = is_coroutine_function(inspect.unwrap(call))
        dependant.call = decide_then_await if awaits else decide_then_call
