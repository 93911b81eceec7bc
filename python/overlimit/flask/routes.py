"""From a registered view to the marks that hold for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flask import Flask

from overlimit.flask.marks import Mark, Marks, marks_above, marks_of
from overlimit.http.policy_names import distinct

__all__ = ["Route", "View", "find_route", "labelled"]

View = Callable[..., Any]
Labelled = tuple[tuple[str, Mark], ...]


class Route(NamedTuple):
    """An endpoint, for one HTTP method, and the decorators' limits on it.

    ``view_decides``: a call of the view passes through a decorator, which then decides the request.
    ``limited`` is False for static files.
    """

    endpoint: str
    labelled: Labelled
    view_decides: bool
    limited: bool


def find_route(app: Flask, endpoint: str, view: View, method: str) -> Route:
    """Collect what concerns the view of an endpoint when asked for with one HTTP method."""
    name, handler = _method_handler(view, method)
    on_view, on_handler = marks_of(view), marks_of(handler)
    found = (*labelled((*on_view, *marks_above(view))), *labelled(on_handler, f"{name}."))
    decides = bool(on_view or on_handler)
    return Route(endpoint, found, decides, limited=bool(found) or not _is_static(app, endpoint))


def labelled(marks: Marks, start: str = "") -> Labelled:
    """Tell the marks of one function apart: by their name, or else by their place from the inside."""
    labels = distinct(mark.name or f"{start}{number}" for number, mark in enumerate(marks, 1))
    return tuple(zip(labels, marks, strict=True))


def _method_handler(view: View, method: str) -> tuple[str, object]:
    """Return the method of a class view that answers, behind its name."""
    view_class = getattr(view, "view_class", None)
    name = method.lower()
    if name == "head" and not hasattr(view_class, name):
        name = "get"
    return name, getattr(view_class, name, None)


def _is_static(app: Flask, endpoint: str) -> bool:
    owner, _, name = endpoint.rpartition(".")
    scaffold = app.blueprints.get(owner) if owner else app
    return name == "static" and scaffold is not None and scaffold.has_static_folder
