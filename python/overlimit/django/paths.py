"""The paths of a site, and the views that they lead to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver

from overlimit.django.views import functions_called, name_of, name_of_function

METHODS = "GET", "POST", "PUT", "PATCH", "DELETE"


class Reached(NamedTuple):
    """A view that a path leads to."""

    pattern: URLPattern
    path: str
    """As it is written in the patterns that lead to it."""
    parameters: Collection[str]
    """The names of what the view is told."""


def reached() -> Iterator[Reached]:
    """Yield the views of the site."""
    return _reached(get_resolver(), "/", ())


def _reached(resolver: Any, path: str, above: Collection[str]) -> Iterator[Reached]:
    for each in resolver.url_patterns:
        names = {*above, *each.pattern.regex.groupindex}
        below = path + str(each.pattern).removeprefix("^")
        if isinstance(each, URLResolver):
            yield from _reached(each, below, names | each.default_kwargs.keys())
        elif isinstance(each, URLPattern):
            yield Reached(each, below, names | each.default_args.keys())


def paths_of_views() -> dict[str, tuple[str, ...]]:
    """Return the paths that lead to each view, by all names that it may count by."""
    found: dict[str, dict[str, None]] = {}
    for each in reached():
        view = each.pattern.callback
        functions = (function for method in METHODS for function in functions_called(view, method))
        names = (name_of_function(view, function) for function in functions if function is not None)
        for name in (name_of(view), *names):
            found.setdefault(name, {})[each.path] = None
    return {name: tuple(paths) for name, paths in found.items()}
