"""Views: functions by the names of endpoints, a call of which passes through the limits of decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from overlimit.http.callables import method_handler
from overlimit.http.rules.applied_limits import (
    AppliedLimit,
    applied_limits_above,
    applied_limits_of,
    labelled,
)
from overlimit.http.rules.precedence import STANDARD_METHODS, Route, RouteGroup

View = Callable[..., Any]


def route_of(
    app: object,
    endpoint: str,
    method: str,
    view: View,
    groups: Iterator[RouteGroup],
    paths: Sequence[str],
    *,
    is_static: bool = False,
) -> Route:
    """Return an endpoint of an app for one HTTP method, with the limits of its view and of its groups."""
    methods = tuple(_methods_called(view, method))
    on_view, on_method = applied_limits_of(view), tuple(chain.from_iterable(map(applied_limits_of, methods)))
    found = labelled((*on_view, *not_called(app, view)))
    return Route(
        endpoint,
        method,
        (view, *methods),
        found,
        on_method,
        tuple(groups),
        handler_decides=bool(on_view or on_method),
        limited=bool(found or on_method) or not is_static,
        paths=tuple(paths),
    )


def groups_of(endpoint: str, kind: str, groups: Mapping[str, object]) -> Iterator[RouteGroup]:
    """Yield the groups whose names an endpoint begins with, before a dot, the innermost first."""
    name = endpoint.rpartition(".")[0]
    while name:
        if name in groups:
            yield RouteGroup(kind, name, groups[name])
        name = name.rpartition(".")[0]


def not_called(app: object, view: View) -> Iterator[AppliedLimit]:
    """Yield the applied limits above a view, except for those of a RateLimit that only other apps have."""
    for applied in applied_limits_above(view):
        handle = applied.handle
        if handle is None or handle.is_on(app) or not handle.was_registered:
            yield applied


def places_of(rules: Iterable[Any], views: Mapping[str, View]) -> Iterator[tuple[str, str]]:
    """Yield the endpoints of rules that have views, each with its methods but OPTIONS and HEAD.

    A rule without methods is of handshakes of websockets, which are GETs.
    """
    found = {(rule.endpoint, method) for rule in rules for method in rule.methods or ("GET",)}
    for endpoint, method in sorted(found):
        if endpoint in views and method not in ("OPTIONS", "HEAD"):
            yield endpoint, method


def counted_place(asked: Any) -> tuple[str, str]:
    """Return the endpoint and method that a call counts for; without a route, methods may be made up."""
    if asked.url_rule is not None or asked.method in STANDARD_METHODS:
        return asked.endpoint or "", asked.method
    return "", "OTHER"


def functions_of(views: Mapping[str, View]) -> Iterator[View]:
    """Yield views, and the methods of those that are classes."""
    for view in tuple(views.values()):
        yield view
        taken = getattr(getattr(view, "view_class", None), "methods", None) or ("GET",)
        yield from dict.fromkeys(chain.from_iterable(_methods_called(view, method) for method in taken))


def _methods_called(view: View, method: str) -> Iterator[View]:
    """Yield the methods of a class that a call of its view comes to, the outermost first."""
    of = getattr(view, "view_class", None)
    found = getattr(of, "dispatch_request", None), method_handler(of, method)
    return (each for each in found if each is not None)
