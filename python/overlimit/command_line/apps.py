"""An app, found by its name, and its routes with all that limits them: RateLimits and middleware."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from overlimit._patterns import ANYTHING
from overlimit.asgi import RateLimitMiddleware
from overlimit.command_line.failures import NothingFound, WrongUsage
from overlimit.http.app_state import BaseAppState
from overlimit.http.callables import dotted_name
from overlimit.http.middleware import LimitsByPath, apps_within
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.precedence import Route, RulesOfRoute
from overlimit.http.rules.rule import Rule

_PARAMETER = re.compile(r"\{[^}]*\}")


def load_app(name: str, folder: str, *, is_factory: bool) -> object:
    """Return what is called ``module:app`` in a folder, or what that returns; raise WrongUsage."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise WrongUsage(f"name the app as module:app, such as main:app, not {name!r}")
    sys.path.insert(0, os.path.abspath(folder))
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise WrongUsage(f"cannot import {module!r}: {type(error).__name__}: {error}") from error
    try:
        found: Any = attrgetter(attribute)(imported)
    except AttributeError:
        raise WrongUsage(f"the module {module!r} has no {attribute!r}") from None
    if not is_factory and _may_be_factory(found):
        raise WrongUsage(f"{name!r} is a function, not an app: if it returns the app, add --factory")
    return found() if is_factory else found


def _may_be_factory(found: object) -> bool:
    """Whether it is a function that can be called without arguments, as an ASGI app cannot."""
    if not inspect.isfunction(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    return all(each.default is not each.empty or each.kind in _ANY_NUMBER for each in parameters)


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Way(NamedTuple):
    """How a request comes to an app or a route."""

    shown: str = ""
    """The paths and hosts on the way, as the framework writes them."""
    path: str = ""
    """The path alone."""
    middleware: tuple[tuple[LimitsByPath, int], ...] = ()
    """The limits of middleware that it passes, each with the length of the path that leads there."""
    has_state: bool = False
    """Whether an app on the way has RateLimits, so that these say what routes there are to limit."""

    def to(self, path: str) -> _Way:
        """Return the way to what is at a path here."""
        return self._replace(shown=self.shown + path, path=self.path + path)

    def limited_by(self, limits: LimitsByPath) -> _Way:
        """Return the way within a middleware."""
        return self._replace(middleware=(*self.middleware, (limits, len(self.path))))

    def rules(self, method: str) -> tuple[Rule, ...]:
        """Return the rules of all middleware on the way."""
        asked = ((limits, _PARAMETER.sub(ANYTHING, self.path[start:])) for limits, start in self.middleware)
        return tuple(rule for limits, path in asked for rule in limits.rules_of(method, path))


class LimitedApp:
    """What limits an app, and where, as far as it can be known without a request."""

    def __init__(self, app: object) -> None:
        """Look for the routes; raise NothingFound if nothing limits the app."""
        self._rate_limits: dict[int, AppRateLimit] = {}
        self._known: dict[tuple[str, str], RulesOfRoute] = {}
        self.routes: list[RulesOfRoute] = []
        """The routes, or where an app has none that can be found the patterns of a middleware."""
        self._look_into(app, _Way())
        if not self._rate_limits:
            raise NothingFound(
                "nothing limits this app: it has no RateLimit, and no RateLimitMiddleware (a Django site is "
                "listed by manage.py overlimit_limits)"
            )

    @property
    def rate_limits(self) -> tuple[AppRateLimit, ...]:
        """All RateLimits and middleware."""
        return tuple(self._rate_limits.values())

    def _note(self, rate_limit: AppRateLimit) -> None:
        self._rate_limits[id(rate_limit)] = rate_limit

    def _look_into(self, app: object, way: _Way) -> None:
        for each in _layers(app):
            limits = getattr(each, "_limits", None)
            if isinstance(limits, LimitsByPath):
                self._note(limits.rate_limit)
                way = way.limited_by(limits)
            state = _state_of(each)
            if state is not None:
                self._note_state(state, way)
                if not hasattr(each, "routes"):  # of Flask and Quart, which know theirs by themselves
                    self._add_all(state, way)
                way = way._replace(has_state=True)
            if hasattr(each, "routes"):
                return self._look_at(each.routes, way)
        if way.shown:
            self._add(way, dotted_name(app), ("GET",))
        elif not way.has_state:
            self.routes += (each for limits, _ in way.middleware for each in limits.described())
        return None

    def _note_state(self, state: BaseAppState, way: _Way) -> None:
        for route, rules in state.routes():
            for path in route.paths:
                self._known.setdefault((way.shown + path, route.method), (route, rules))
        for each in state.rate_limits:
            self._note(each)

    def _add_all(self, state: BaseAppState, way: _Way) -> None:
        with state.active():
            for route, rules in state.routes():
                around = way.to(next(iter(route.paths), "")).rules(route.method)
                self.routes.append((route, (*rules, *around)))

    def _look_at(self, routes: Any, way: _Way) -> None:
        for route in routes:
            if hasattr(route, "effective_route_contexts"):  # an included router, which FastAPI keeps apart
                contexts = route.effective_route_contexts()
                self._look_at([each.starlette_route or each for each in contexts], way)
            elif hasattr(route, "endpoint"):
                path = getattr(route, "path_format", route.path)
                methods = sorted({*(route.methods if getattr(route, "methods", None) else ("GET",))})
                self._add(way.to(path), dotted_name(route.endpoint), methods)
            elif hasattr(route, "host"):
                self._look_into(route.app, way._replace(shown=way.shown + route.host))
            elif hasattr(route, "path"):
                self._look_into(route.app, way.to(route.path))

    def _add(self, way: _Way, endpoint: str, methods: Any) -> None:
        for method in methods:
            if method in ("HEAD", "OPTIONS"):
                continue
            around = way.rules(method)
            known = self._known.get((way.shown, method))
            if known is not None:
                self.routes.append((known[0]._replace(paths=(way.shown,)), (*known[1], *around)))
            elif around or not way.has_state:
                self.routes.append((Route(endpoint, method, limited=True, paths=(way.shown,)), around))


def _layers(app: object) -> Iterator[Any]:
    """Yield an app and what is around it, the outermost first, with middleware that it gets at its start."""
    for each in apps_within(app):
        around: list[Any] = [each]
        for middleware in reversed(getattr(each, "user_middleware", ())):
            kind, *arguments = middleware
            if isinstance(kind, type) and issubclass(kind, RateLimitMiddleware):
                positional = arguments[0] if len(arguments) > 1 else ()
                around.append(kind(around[-1], *positional, **arguments[-1]))
        yield from reversed(around)


def _state_of(app: Any) -> BaseAppState | None:
    """Return what an adapter keeps of an app."""
    extensions = getattr(app, "extensions", None)
    kept = extensions.get("overlimit") if isinstance(extensions, dict) else None
    kept = kept or getattr(getattr(app, "state", None), "overlimit", None)
    return kept if isinstance(kept, BaseAppState) else None
