"""What limits an app has where, as far as that is known without a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flask import Flask

from overlimit.flask.app_state import AppState
from overlimit.flask.binding import Binding
from overlimit.flask.compiling import check_marks, placed_limits
from overlimit.flask.routes import Route, routes_of
from overlimit.http.making import Placed
from overlimit.http.rules import Role

__all__ = ["Entry", "Held", "entries_of", "limiting_bindings"]


class Held(NamedTuple):
    """A limit that may hold for a route, and the RateLimit it goes through."""

    binding: Binding
    placed: Placed

    @property
    def enforced(self) -> bool:
        """Whether it can refuse a request by itself."""
        return self.placed.role is Role.ENFORCE and not self.in_shadow and self.binding.enabled

    @property
    def in_shadow(self) -> bool:
        """Whether it counts and never refuses."""
        return self.placed.options.shadow or self.binding.shadow


class Entry(NamedTuple):
    """An endpoint for one HTTP method, with its URL rules and all that may hold for it."""

    route: Route
    rules: tuple[str, ...]
    held: tuple[Held, ...]

    @property
    def protected(self) -> bool:
        """Whether any limit can refuse a request to it."""
        return any(held.enforced for held in self.held)


def limiting_bindings(app: Flask) -> tuple[Binding, ...]:
    """Return what limits an app, also without a RateLimit; none: nothing does.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    bindings = AppState.of(app).bindings
    for route in routes_of(app):
        check_marks(bindings, route)
    return tuple(bindings)


def entries_of(app: Flask) -> Iterator[Entry]:
    """Yield every route but those of static files, by endpoint and method.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    found = limiting_bindings(app)
    bindings = AppState.of(app).bindings
    for route in routes_of(app):
        if route.limited:
            held = (Held(each, placed) for each in found for placed in placed_limits(bindings, each, route))
            yield Entry(route, _url_rules(app, route), tuple(held))


def _url_rules(app: Flask, route: Route) -> tuple[str, ...]:
    rules = app.url_map.iter_rules(route.endpoint)
    return tuple(rule.rule for rule in rules if route.method in (rule.methods or ()))
