"""How a route is found: from a registered view to its decorators and the blueprints it lies in."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Flask
from flask.views import http_method_funcs

from overlimit.http.installations import Installations
from overlimit.http.marks import Mark, labelled, marks_above, marks_of, marks_of_group
from overlimit.http.precedence import Group, Route, rules_of_route
from overlimit.http.reports import RouteRules

__all__ = ["View", "check_methods", "find_route", "routes_of", "rules_of_app"]

View = Callable[..., Any]

_STANDARD_METHODS = frozenset(name.upper() for name in http_method_funcs) | {"CONNECT"}


def find_route(app: Flask, endpoint: str, view: View, method: str) -> Route:
    """Collect what concerns the view of an endpoint when asked for with one HTTP method."""
    handler = _method_handler(view, method)
    on_view, on_method = marks_of(view), marks_of(handler)
    found = labelled((*on_view, *_lost_marks(app, view)))
    return Route(
        endpoint,
        method,
        (view,) if handler is None else (view, handler),
        found,
        on_method,
        tuple(_groups(app, endpoint)),
        view_decides=bool(on_view or on_method),
        limited=bool(found or on_method) or not _is_static(app, endpoint),
    )


def routes_of(app: Flask) -> Iterator[Route]:
    """Yield every route of an app, by endpoint and method; OPTIONS, which nothing limits, is left out."""
    found = {(rule.endpoint, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()}
    for endpoint, method in sorted(found):
        view = app.view_functions.get(endpoint)
        if view is not None and method not in ("OPTIONS", "HEAD"):
            yield find_route(app, endpoint, view, method)


def _groups(app: Flask, endpoint: str) -> Iterator[Group]:
    name = endpoint.rpartition(".")[0]
    while name:
        blueprint = app.blueprints.get(name)
        if blueprint is not None:
            yield Group(name, blueprint)
        name = name.rpartition(".")[0]


def _method_handler(view: View, method: str) -> View | None:
    """Return the method of a class view that answers."""
    view_class = getattr(view, "view_class", None)
    name = method.lower()
    if name == "head" and not hasattr(view_class, name):
        name = "get"
    return getattr(view_class, name, None)


def _lost_marks(app: Flask, view: View) -> Iterator[Mark]:
    """Yield the marks above a view, but for those of a RateLimit that only other apps have."""
    for mark in marks_above(view):
        owner = mark.limiter
        if owner is None or owner._limits(app) or not owner._was_registered:
            yield mark


def _is_static(app: Flask, endpoint: str) -> bool:
    owner, _, name = endpoint.rpartition(".")
    scaffold = app.blueprints.get(owner) if owner else app
    return name == "static" and scaffold is not None and scaffold.has_static_folder


def rules_of_app(app: Flask, installations: Installations) -> Iterator[RouteRules]:
    """Yield the rules of every route but those of static files, by endpoint and method."""
    for route in routes_of(app):
        if route.limited:
            rules = (rule for each in installations for rule in rules_of_route(installations, each, route))
            yield RouteRules(route.endpoint, route.method, _paths(app, route), tuple(rules))


def _paths(app: Flask, route: Route) -> tuple[str, ...]:
    rules = app.url_map.iter_rules(route.endpoint)
    return tuple(rule.rule for rule in rules if route.method in (rule.methods or ()))


def check_methods(app: Flask, route: Route, marks: Iterable[Mark] = ()) -> None:
    """See to it that limits of a route, of its blueprints and ``marks`` name methods that there are.

    Raises
    ------
    ValueError
        One is neither a standard HTTP method nor one that a route of the app takes.
    """
    inherited = (mark for each in route.groups for mark in marks_of_group(each.group))
    named = {name for mark in (*route.marks, *inherited, *marks) for name in mark.options.methods or ()}
    unknown = sorted(named - _STANDARD_METHODS)
    if not unknown:
        return
    rules = tuple(app.url_map.iter_rules())
    if any(rule.methods is None for rule in rules):
        return
    taken = {name for rule in rules for name in rule.methods or ()}
    for name in unknown:
        if name not in taken:
            raise ValueError(
                f"a limit for {route.endpoint!r} has methods=[{name!r}], which no route of {app.name!r} "
                f"takes{_hint(name, taken)}"
            )


def _hint(name: str, taken: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, (*taken, *_STANDARD_METHODS), n=1)
    return f": did you mean {nearest[0]!r}?" if nearest else ": name some that its routes take, as 'GET'"
