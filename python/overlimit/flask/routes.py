"""From a registered view to what concerns it: its marks and the blueprints it lies in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from flask import Blueprint, Flask

from overlimit.flask.marks import Mark, Marks, marks_above, marks_of
from overlimit.http.policy_names import distinct

__all__ = ["Nest", "Route", "View", "find_route", "labelled", "no_route", "routes_of"]

View = Callable[..., Any]
Labelled = tuple[tuple[str, Mark], ...]


class Nest(NamedTuple):
    """A blueprint around a route, by the name it is registered under."""

    name: str
    blueprint: Blueprint


class Route(NamedTuple):
    """An endpoint, for one HTTP method, the decorators' limits on it and its blueprints, innermost first.

    ``labelled`` are those on the view, ``on_method`` those on the method of a class view that answers.

    ``view_decides``: a call of the view passes through a decorator, which then decides the request.
    ``limited`` is False for static files without a decorator.
    """

    endpoint: str
    method: str
    handlers: tuple[View, ...]
    """The view, and the method of a class view that answers."""
    labelled: Labelled
    on_method: Marks
    nests: tuple[Nest, ...]
    view_decides: bool
    limited: bool

    @property
    def marks(self) -> Iterator[Mark]:
        """All decorators on it, those of its blueprints apart."""
        yield from (mark for _, mark in self.labelled)
        yield from self.on_method


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
        tuple(_nests(app, endpoint)),
        view_decides=bool(on_view or on_method),
        limited=bool(found or on_method) or not _is_static(app, endpoint),
    )


def no_route(endpoint: str, method: str) -> Route:
    """Return what a request has that goes to no view, as a hook sees it."""
    return Route(endpoint, method, (), (), (), (), view_decides=False, limited=False)


def routes_of(app: Flask) -> Iterator[Route]:
    """Yield every route of an app, by endpoint and method; OPTIONS, which nothing limits, is left out."""
    found = {(rule.endpoint, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()}
    for endpoint, method in sorted(found):
        view = app.view_functions.get(endpoint)
        if view is not None and method not in ("OPTIONS", "HEAD"):
            yield find_route(app, endpoint, view, method)


def labelled(marks: Marks) -> Labelled:
    """Tell the marks of one thing apart: by their name, or else by their place from the inside."""
    labels = distinct(mark.options.name or str(number) for number, mark in enumerate(marks, 1))
    return tuple(zip(labels, marks, strict=True))


def _nests(app: Flask, endpoint: str) -> Iterator[Nest]:
    name = endpoint.rpartition(".")[0]
    while name:
        blueprint = app.blueprints.get(name)
        if blueprint is not None:
            yield Nest(name, cast(Blueprint, blueprint))
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
