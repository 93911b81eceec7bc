"""How a route is found, from a registered view to its decorators and blueprints, and what else is called."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from flask import Flask

from overlimit.http.callables import function_name
from overlimit.http.rules.applied_limits import applied_limits_of
from overlimit.http.rules.precedence import Route
from overlimit.http.rules.views import groups_of, not_called, route_of

_log = logging.getLogger("overlimit")


def find_route(app: Flask, endpoint: str, method: str) -> Route:
    """Collect the limits of an endpoint's view for one HTTP method; without a view there are none."""
    view = app.view_functions.get(endpoint)
    if view is None:
        return Route(endpoint, method)
    groups = groups_of(endpoint, "blueprint", app.blueprints)
    paths = [rule.rule for rule in app.url_map.iter_rules(endpoint) if method in (rule.methods or ())]
    return route_of(app, endpoint, method, view, groups, paths, is_static=_is_static(app, endpoint))


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
        if function not in warned_of and any(not_called(app, function)):
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
