"""How a route is found, from a registered view to its decorators and blueprints, and what else is called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from flask import Flask

from overlimit.http.callables import function_name, method_handler
from overlimit.http.rules.applied_limits import (
    AppliedLimit,
    applied_limits_above,
    applied_limits_of,
    labelled,
)
from overlimit.http.rules.precedence import Route, RouteGroup

View = Callable[..., Any]

_log = logging.getLogger("overlimit")


def find_route(app: Flask, endpoint: str, method: str) -> Route:
    """Collect the limits of an endpoint's view for one HTTP method; without a view there are none."""
    view = app.view_functions.get(endpoint)
    if view is None:
        return Route(endpoint, method)
    handler = method_handler(getattr(view, "view_class", None), method)
    on_view, on_method = applied_limits_of(view), applied_limits_of(handler)
    found = labelled((*on_view, *_decorations_not_called(app, view)))
    return Route(
        endpoint,
        method,
        (view,) if handler is None else (view, handler),
        found,
        on_method,
        tuple(_groups(app, endpoint)),
        handler_decides=bool(on_view or on_method),
        limited=bool(found or on_method) or not _is_static(app, endpoint),
        paths=tuple(rule.rule for rule in app.url_map.iter_rules(endpoint) if method in (rule.methods or ())),
    )


def routes_of(app: Flask) -> Iterator[Route]:
    """Yield every route of an app, by endpoint and method, except for OPTIONS, which is never limited."""
    found = {(rule.endpoint, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()}
    for endpoint, method in sorted(found):
        if endpoint in app.view_functions and method not in ("OPTIONS", "HEAD"):
            yield find_route(app, endpoint, method)


def _groups(app: Flask, endpoint: str) -> Iterator[RouteGroup]:
    name = endpoint.rpartition(".")[0]
    while name:
        blueprint = app.blueprints.get(name)
        if blueprint is not None:
            yield RouteGroup("blueprint", name, blueprint)
        name = name.rpartition(".")[0]


def _decorations_not_called(app: Flask, view: View) -> Iterator[AppliedLimit]:
    """Yield the applied limits above a view, except for those of a RateLimit that only other apps have."""
    for applied in applied_limits_above(view):
        handle = applied.handle
        if handle is None or handle.is_on(app) or not handle.was_registered:
            yield applied


def _is_static(app: Flask, endpoint: str) -> bool:
    owner, _, name = endpoint.rpartition(".")
    scaffold = app.blueprints.get(owner) if owner else app
    return name == "static" and scaffold is not None and scaffold.has_static_folder


def check_hooks(app: Flask, warned_of: list[object]) -> None:
    """Raise RuntimeError for a limit on what runs after the response, and warn of limits that nobody asks.

    Of functions that Flask calls besides views it calls what was registered, so a limit above that is lost.
    """
    for function in (*chain(*app.teardown_request_funcs.values()), *app.teardown_appcontext_funcs):
        if applied_limits_of(function):
            raise RuntimeError(
                f"{function_name(function)} is limited, but it is called after the response, and cannot be "
                "refused: put the limit on what does the work"
            )
    for function in _hooks(app):
        if function not in warned_of and any(_decorations_not_called(app, function)):
            warned_of.append(function)
            _log.warning(
                "the limit on %s holds for no request: %r calls the function as it was registered, "
                "without the limit. Write that below the decorator of the app",
                function_name(function),
                app.name,
            )


def _hooks(app: Flask) -> Iterator[Callable[..., Any]]:
    """Yield what is called in requests besides views."""
    by_blueprint: tuple[dict[Any, list[Any]], ...] = (
        app.before_request_funcs,
        app.after_request_funcs,
        app.template_context_processors,
        app.url_value_preprocessors,
        app.url_default_functions,
    )
    for registered in by_blueprint:
        yield from chain(*registered.values())
    for by_code in app.error_handler_spec.values():
        yield from chain(*(handlers.values() for handlers in by_code.values()))
    templates = vars(app).get("jinja_env")  # once the app has one
    if templates is not None:
        yield from (*templates.filters.values(), *templates.tests.values())
