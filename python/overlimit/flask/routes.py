"""How a route is found, from a registered view to its decorators and blueprints."""

from __future__ import annotations

from flask import Flask

from overlimit.http.rules.precedence import Route
from overlimit.http.rules.views import groups_of, route_of


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
