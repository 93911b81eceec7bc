"""What is known of a view: its name, by which it counts, its decorators, and whether it is exempt."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver

from overlimit.http.callables import dotted_name, method_handler
from overlimit.http.rules.applied_limits import APPLIED_LIMITS, AppliedLimits, wrapped_chain

EXEMPT = "__overlimit_exempt__"
"""The attribute of a view, or of a class of views, that is exempt."""

_MOST_KEPT = 4096
METHODS = "GET", "POST", "PUT", "PATCH", "DELETE"
_STATIC = ("django.views.static", "django.contrib.staticfiles.views")


def limits_of(function: object) -> AppliedLimits:
    """Return the limits of all decorators that a call of the function passes, the innermost first.

    Each leaves an attribute of its own, since ``method_decorator`` lets one replace another of the same name.
    """
    found: dict[str, AppliedLimits] = {}
    for each in reversed(tuple(wrapped_chain(function))):
        attributes = getattr(each, "__dict__", {})
        found |= {name: own for name, own in attributes.items() if name.startswith(APPLIED_LIMITS)}
    return tuple(chain.from_iterable(found.values()))


def class_of(view: object) -> type | None:
    """Return the class of a view that ``as_view()`` or REST framework made; None: it is a function."""
    found = getattr(view, "view_class", None) or getattr(view, "cls", None)
    return found if isinstance(found, type) else None


@lru_cache(_MOST_KEPT)
def name_of(view: Callable[..., Any]) -> str:
    """Return the dotted name of a view, of its class if it has one."""
    return _dotted(class_of(view) or inspect.unwrap(view))


def name_of_call(function: Callable[..., Any], owner: object) -> str:
    """Return the name by which a decorated function counts; ``owner`` is the view that it is a method of."""
    return name_of(function) if owner is None else _name_of_method(type(owner), function)


def name_of_function(view: Callable[..., Any], function: Callable[..., Any]) -> str:
    """Return the name by which one of the `functions_called` by a view counts."""
    of = class_of(view)
    is_method = of is not None and getattr(of, getattr(function, "__name__", ""), None) is function
    return _name_of_method(of, function) if of is not None and is_method else name_of(function)


def _name_of_method(of: type, function: Callable[..., Any]) -> str:
    method = getattr(function, "__name__", "")
    return _dotted(of) if method in ("dispatch", "") else f"{_dotted(of)}.{method}"


def shown_name(dotted: str) -> str:
    """Return a dotted name without its module, since how a site is built is no business of its clients."""
    _, is_local, local = dotted.rpartition("<locals>.")
    if is_local:
        return local
    parts = dotted.split(".")
    modules = (end for end in range(1, len(parts)) if ".".join(parts[:end]) in sys.modules)
    return ".".join(parts[max(modules, default=len(parts) - 1) :])


class Facts(NamedTuple):
    """What is the same for every request to a view with a method."""

    name: str
    decides: bool
    """Whether a call comes to one of our decorators."""
    is_exempt: bool


@lru_cache(_MOST_KEPT)
def facts_of(view: Callable[..., Any], method: str) -> Facts:
    """Return what is known of the view that a path leads to."""
    return Facts(name_of(view), any(map(limits_of, functions_called(view, method))), is_exempt(view, method))


def is_exempt(view: object, method: str) -> bool:
    """Return whether a view is exempt, or its class, or the method of that which answers."""
    called = chain.from_iterable(map(wrapped_chain, functions_called(view, method)))
    return is_static(view) or any(getattr(each, EXEMPT, False) for each in (class_of(view), *called))


def is_static(view: object) -> bool:
    """Return whether a view sends files, as Django's own do."""
    return getattr(inspect.unwrap(view), "__module__", "") in _STATIC  # type: ignore[arg-type]


def functions_called(view: Any, method: str) -> Iterator[Any]:
    """Yield the functions that a call of the view leads to."""
    yield view
    of = class_of(view)
    if of is None:
        return
    action = getattr(view, "actions", {}).get(method.lower())  # a ViewSet names its actions
    handler = method_handler(of, method) if action is None else getattr(of, action, None)
    yield handler
    if getattr(handler, "__module__", "") == "rest_framework.decorators":  # what @api_view has made
        yield from (cell.cell_contents for cell in getattr(handler, "__closure__", None) or ())


def decisions(
    view: Any, method: str, has_middleware: bool
) -> Iterator[tuple[str, AppliedLimits, str | None]]:
    """Yield what is decided for a view: the name it counts by, its limits, and where the site's are decided.

    That is the name of the view, by which the limits of the site count.
    """
    functions = [each for each in functions_called(view, method) if limits_of(each)]
    for number, function in enumerate(functions):
        yield (
            name_of_function(view, function),
            limits_of(function),
            name_of(view) if has_middleware and number == 0 else None,
        )
    if has_middleware and not functions:
        yield name_of(view), (), name_of(view)
    drf = sys.modules.get("overlimit.django.drf")  # which no throttle is without
    if drf is not None:
        yield name_of(view), drf.limits_of_throttles(class_of(view)), None


def _dotted(thing: Any) -> str:
    if isinstance(thing, type) and not thing.__qualname__.endswith(thing.__name__):
        return f"{thing.__module__}.{thing.__name__}"  # of a function, which @api_view has made a class of
    return dotted_name(thing)


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
