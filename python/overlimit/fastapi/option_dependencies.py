"""Functions given as options that depend on others by ``Depends(...)``, which FastAPI resolves as for any."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from fastapi import Depends, params
from fastapi.dependencies.utils import get_dependant, get_typed_signature
from fastapi.exceptions import FastAPIError
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from overlimit.http.asgi.requests import ASGIApp, Receive, Scope, Send, kept_in
from overlimit.http.callables import (
    AwaitedFunction,
    StandsForFunctions,
    SuppliedFunction,
    function_name,
    is_coroutine_function,
    taking_request,
)
from overlimit.http.identifying.identifiers import MAKES_ONE
from overlimit.http.parameters import (
    called_with,
    check_given_first,
    may_be_given,
    never_given,
    refuse_annotation,
    unread_annotation,
)

_MARKERS = (params.Depends, params.Param, params.Body)
"""What says that FastAPI finds the value of a parameter, and where."""

_CONNECTIONS = re.compile(r"(?i)(request|websocket|connection|\bany|\bobject)\b")
"""The names of parameters, and in annotations that nobody can read, that are for a request."""

_CONNECTION = "connection_of_overlimit"

_GO_ON = "overlimit.go_on"
"""The key under which a scope has what is done once dependencies are resolved."""


def taking_dependencies(given: Any, own: int | None = 0, of: str = "") -> Any:
    """Return functions as `taking_request` does, which may depend on others as path functions do.

    They are given what ``of`` says, if anything, before the request. Raises TypeError for one that depends on
    what nobody can give it.
    """
    if isinstance(given, (list, tuple)) and own is not None:
        return type(given)(taking_dependencies(member, own, of) for member in given)
    is_ours = isinstance(given, StandsForFunctions) or hasattr(given, MAKES_ONE)
    if own is None or not callable(given) or is_ours:
        return given
    parameters = _parameters_of(given)
    supplied = [each for each in parameters if _is_supplied(given, each)]
    others = [each for each in parameters if each not in supplied and each.kind is not each.VAR_POSITIONAL]
    check_given_first(given, others, of, HTTPConnection)
    for each in others[own : own + 1]:
        _check_is_for_request(given, each)
    for name in never_given(given, others, own + 1):
        raise TypeError(
            f"nothing gives {function_name(given)} its parameter {name!r}, which would always have its "
            f"default: write {name}: Annotated[..., Query()], Header() or Depends(...) for what FastAPI is "
            "to find, or leave out its annotation if that is what is meant"
        )
    if not supplied:
        return taking_request(given, own, kept_in)
    if any(each.kind is each.POSITIONAL_ONLY for each in parameters):
        raise TypeError(f"{function_name(given)} depends on others, so leave out the / of its parameters")
    names = tuple(each.name for each in others if each.kind is each.POSITIONAL_OR_KEYWORD)
    function = DependingFunction((given,), names, called_with(others, own), kept_in)
    function.check()
    return AwaitedFunction((function,), kept_in) if is_coroutine_function(given) else function


def _parameters_of(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    try:
        return tuple(get_typed_signature(function).parameters.values())
    except ValueError:  # a built-in function without a signature
        return ()
    except Exception:  # of annotations that are for type checkers only
        return tuple(inspect.signature(function).parameters.values())


def _is_supplied(function: object, parameter: inspect.Parameter) -> bool:
    """Return whether FastAPI finds its value; TypeError if it would, but cannot read the annotation."""
    unread, default = unread_annotation(parameter), parameter.default
    is_marked = isinstance(default, _MARKERS)
    needs_it = is_marked and not getattr(default, "dependency", None)
    if unread is not None and (needs_it or "Annotated[" in unread):
        refuse_annotation(function, parameter, "Depends(...)")
    return is_marked or any(
        isinstance(each, _MARKERS) for each in getattr(parameter.annotation, "__metadata__", ())
    )


def _check_is_for_request(function: object, parameter: inspect.Parameter) -> None:
    """Raise TypeError if the parameter that would be given the request is plainly for something else."""
    if not may_be_given(parameter, HTTPConnection, _CONNECTIONS):
        name = parameter.name
        if unread_annotation(parameter) is not None:
            refuse_annotation(function, parameter, "Depends(...)")
        raise TypeError(
            f"{function_name(function)}: {name!r} is a plain parameter, which gets the request, and its "
            f"annotation or default does not fit one: write {name}: Annotated[..., Query()], Header() or "
            "Depends(...) for what FastAPI is to find, or request: Request"
        )


@dataclass(frozen=True)
class DependingFunction(SuppliedFunction):
    """A function of the app that is given what it depends on."""

    @cached_property
    def dependency(self) -> Supply:
        """What has FastAPI resolve that, among the dependencies of a route."""
        return Supply(self)

    def dependant(self, path: str) -> Any:
        """Return what FastAPI knows of the dependency on a route with this path."""
        return get_dependant(path=path, call=self.dependency)

    def check(self) -> None:
        """Raise TypeError if FastAPI cannot give it what it depends on, whatever the route."""
        try:
            found = [self.dependant("/")]
        except (AssertionError, FastAPIError) as error:
            raise TypeError(f"{self.name} cannot be given what it depends on: {error}") from None
        for each in found:
            if each.body_params:
                raise TypeError(
                    f"{self.name} depends on the body of a request ({each.body_params[0].name!r}), which is "
                    "read for the path function: let it take the request, and await request.json() in a "
                    "coroutine function"
                )
            found += each.dependencies


def depend_on(dependant: Any, functions: Iterable[Any], path: str) -> None:
    """Add to the dependencies of a path function what functions depend on, unless it is there already."""
    known = [each.call.function for each in dependant.dependencies if isinstance(each.call, Supply)]
    dependant.dependencies += [each.dependant(path) for each in functions if each not in known]


class Supply:
    """Stands among the dependencies of a route for what a function given as an option depends on."""

    def __init__(self, function: DependingFunction) -> None:
        self.function = function
        (given,) = function.made_of
        supplied = [each for each in _parameters_of(given) if _is_supplied(given, each)]
        named = [each.replace(kind=each.KEYWORD_ONLY) for each in supplied]
        connection = inspect.Parameter(_CONNECTION, inspect.Parameter.KEYWORD_ONLY, annotation=HTTPConnection)
        self.__signature__ = inspect.Signature([*named, connection])

    async def __call__(self, **values: Any) -> None:
        """Keep what FastAPI has found with the request, where the function looks for it."""
        connection: HTTPConnection = values.pop(_CONNECTION)
        self.function.supply(values, connection)


class ResolvedFirst:
    """Has FastAPI resolve what functions depend on, for a route that is decided before its own dependencies.

    To FastAPI it is a route without parameters that has these dependencies, so errors are answered as
    those of any route. What is done next is done while the dependencies are open.
    """

    def __init__(self, functions: Iterable[DependingFunction], path: str, overridden_by: object) -> None:
        depends = [Depends(each.dependency) for each in functions]
        options: Any = {"dependencies": depends, "dependency_overrides_provider": overridden_by}
        handshakes = APIWebSocketRoute(path, _go_on_handshake, **options)
        self._apps = {"http": APIRoute(path, _go_on, **options).app, "websocket": handshakes.app}

    async def __call__(self, then: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Resolve the dependencies, and go on with ``then`` unless one of them answers the request."""
        scope[_GO_ON] = partial(then, scope, receive, send)
        await self._apps[scope["type"]](scope, receive, send)


async def _go_on(request: Request) -> Response:
    await request.scope.pop(_GO_ON)()
    return _Sent()


async def _go_on_handshake(websocket: WebSocket) -> None:
    await websocket.scope.pop(_GO_ON)()


class _Sent(Response):
    """A response that was sent already; what dependencies want to be done after it remains to be done."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.background is not None:
            await self.background()
