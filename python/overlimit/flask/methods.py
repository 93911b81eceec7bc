"""The HTTP methods that limits are put on: one that no route can be asked by is a slip of the pen."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from flask import Flask
from flask.views import http_method_funcs

from overlimit.flask.marks import Mark, marks_of_blueprint
from overlimit.flask.routes import Route

__all__ = ["check_methods"]

_STANDARD = frozenset(name.upper() for name in http_method_funcs) | {"CONNECT"}


def check_methods(app: Flask, route: Route, marks: Iterable[Mark] = ()) -> None:
    """See to it that limits of a route, of its blueprints and ``marks`` name methods that there are.

    Raises
    ------
    ValueError
        One is neither a standard HTTP method nor one that a route of the app takes.
    """
    inherited = (mark for nest in route.nests for mark in marks_of_blueprint(nest.blueprint))
    named = {name for mark in (*route.marks, *inherited, *marks) for name in mark.options.methods or ()}
    unknown = sorted(named - _STANDARD)
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
    nearest = difflib.get_close_matches(name, (*taken, *_STANDARD), n=1)
    return f": did you mean {nearest[0]!r}?" if nearest else ": name some that its routes take, as 'GET'"
