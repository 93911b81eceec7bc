"""Routes whose functions stay as they are: the limits of one are those of all functions that it calls."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from overlimit.http.callables import dotted_name, function_name, method_handler
from overlimit.http.rules.app_rate_limits import AppRateLimits
from overlimit.http.rules.applied_limits import (
    AppliedLimit,
    applied_limits_above,
    applied_limits_of,
    labelled,
    wrapped_chain,
)
from overlimit.http.rules.precedence import Route

R = TypeVar("R", bound="CalledRoute")

_log = logging.getLogger("overlimit")


@dataclass(eq=False)
class CalledRoute:
    """A route, and what a request to it calls; no two of them are equal."""

    handler: Callable[..., Any]
    app: object
    """The app whose route it is; what is mounted without routes is its own."""
    prefix: str
    """The paths and the host at which the app is mounted, one after the other."""
    path: str
    """The path in the app as the framework writes it."""
    methods: tuple[str, ...]
    """The HTTP methods that it takes."""
    dependencies: tuple[Callable[..., Any], ...]
    """All that the handler depends on, through however many dependencies."""
    limited: bool
    """Whether it can be limited."""

    @property
    def full_path(self) -> str:
        """The path from the outermost app on, behind the host if that leads to it."""
        return self.prefix + self.path

    def method_handler(self, method: str) -> Callable[..., Any] | None:
        """Return what answers an HTTP method, if the handler is a class."""
        return method_handler(self.handler, method) if isinstance(self.handler, type) else None

    def functions(self) -> Iterator[object]:
        """Yield all functions that a request calls, as far as decorators tell."""
        methods = vars(self.handler).values() if isinstance(self.handler, type) else ()
        for each in (self.handler, *self.dependencies, *methods):
            for function in _called_in(each):
                for unwrapped in wrapped_chain(function):
                    yield getattr(unwrapped, "__func__", unwrapped)  # the function of a bound method

    def own_limits(self) -> tuple[AppliedLimit, ...]:
        """Return the limits that decorators have put on the handler, below the route or above it."""
        found = ((*applied_limits_of(each), *applied_limits_above(each)) for each in _called_in(self.handler))
        return tuple(dict.fromkeys(chain.from_iterable(found)))

    def limits_of_dependencies(self) -> tuple[AppliedLimit, ...]:
        """Return the limits of what the handler depends on, each once."""
        functions = chain.from_iterable(map(_called_in, self.dependencies))
        return tuple(dict.fromkeys(chain.from_iterable(map(applied_limits_of, functions))))

    def described(self, endpoint: str, method: str) -> Route:
        """Return the route by the name of its endpoint and for one HTTP method."""
        on_method = self.method_handler(method)
        depends = labelled(self.limits_of_dependencies())
        return Route(
            endpoint,
            method,
            (self.handler,) if on_method is None else (self.handler, on_method),
            (*labelled(self.own_limits()), *((f"depends-{label}", each) for label, each in depends)),
            applied_limits_of(on_method),
            limited=self.limited,
            paths=(self.full_path,),
            field_name=dotted_name(self.handler).rpartition(".")[2],
        )


@dataclass
class Found(Generic[R]):
    """What was found in an app."""

    routes: list[R]
    lists: list[Sequence[object]]
    """The lists of routes that were looked through."""
    apps: list[Any]
    """The app, and those that are mounted in it."""
    _lengths: list[tuple[Sequence[object], int]] | None = None
    overrides: tuple[tuple[Any, dict[Any, Any]], ...] = ()
    """By app the dependencies that have been replaced, as tests do."""

    def keep_shape(self) -> None:
        """Note what `has_changed` compares."""
        self._lengths = [(routes, len(routes)) for routes in self.lists]
        apps = (each for each in self.apps if hasattr(each, "dependency_overrides"))
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


class Place(NamedTuple):
    """Where routes were found."""

    app: object
    prefix: str = ""
    """The mounts that lead to the app."""
    overridden_by: object = None
    """The app, or the next one that it is mounted in, that has ``dependency_overrides``."""

    def below(self, path: str, app: object) -> Place:
        """Return the place of an app that is mounted here at a path or a host."""
        overridden_by = app if hasattr(app, "dependency_overrides") else self.overridden_by
        return Place(app, self.prefix + path, overridden_by)


def _called_in(called: Any) -> tuple[Callable[..., Any], ...]:
    """Return what a call runs, which of an object is a method of its class."""
    return called, type(called).__call__


def endpoints_of(routes: Collection[R]) -> Iterator[tuple[R, str]]:
    """Name the endpoint of each route: its function, with the first path to it if that does not tell it.

    What is defined within a function, or belongs to an app that is mounted several times, is told apart by
    where its app is mounted, too.
    """
    mounts: dict[int, set[str]] = {}
    for route in routes:
        mounts.setdefault(id(route.app), set()).add(route.prefix)
    named = [(route, *_name_and_origin(route, len(mounts[id(route.app)]) > 1)) for route in routes]
    paths: dict[str, list[tuple[object, str]]] = {}
    for route, name, origin in named:
        known = paths.setdefault(name, [])
        if all(each != origin for each, _ in known):
            taken = any(path == route.full_path for _, path in known)
            known.append(
                (origin, f"{','.join(route.methods)} {route.full_path}" if taken else route.full_path)
            )
    for route, name, origin in named:
        path = next(path for each, path in paths[name] if each == origin)
        is_plain = len(paths[name]) == 1 and "<" not in name
        yield route, name if is_plain else f"{name}:{path}"


def _name_and_origin(route: CalledRoute, is_mounted_again: bool) -> tuple[str, object]:
    """Return the name of a route's function, and what tells it from others of this name."""
    name = dotted_name(route.handler)
    is_apart = is_mounted_again or "<" in name
    return name, (inspect.unwrap(route.handler), route.prefix if is_apart else "")


def warn_of_lost(
    rate_limits: AppRateLimits, app_name: str, routes: Iterable[CalledRoute], warned_of: list[object]
) -> None:
    """Warn of limits that hold for no request to the only app, but not of those that were named.

    They are on functions that no route calls, or were to be on one that was given in the place of limits.
    """
    called = {id(function) for route in routes for function in route.functions()}
    for handle in [each.handle for each in rate_limits if len(each.handle.apps) == 1]:
        for function in handle.idle.values():
            if function not in warned_of:
                warned_of.append(function)
                _log.warning(
                    "%s is not limited: limiter.limit was given it in the place of limits. Write "
                    "@limiter.limit('5/minute') above it",
                    function_name(function),
                )
        for function in handle.decorated:
            is_lost = not any(id(each) in called for each in wrapped_chain(function))
            if is_lost and function not in warned_of:
                warned_of.append(function)
                _log.warning(
                    "the limit on %s holds for no request: no route of %r, which has its RateLimit, calls "
                    "it. Put the decorator on a path function or on what one depends on, and nothing that "
                    "hides it in between; if it is called by another app, add the RateLimit to that one, too",
                    function_name(function),
                    app_name,
                )
