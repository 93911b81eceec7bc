"""What a decorator leaves on a function or a blueprint, and how it is found again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from flask import Blueprint, Flask, has_request_context

from overlimit.http.options import LimitOptions

__all__ = [
    "MARKS",
    "Mark",
    "Marks",
    "Owner",
    "leave_mark",
    "mark_blueprint",
    "marks_above",
    "marks_of",
    "marks_of_blueprint",
    "wrapped_chain",
]

MARKS = "__overlimit__"
"""The attribute with a function's marks; ``functools.wraps`` hands it on to the decorators above."""


class Owner(Protocol):
    """The RateLimit that limits are bound to."""

    @property
    def _was_registered(self) -> bool:
        """Whether it was ever registered on an app, be that still there or not."""

    def _limits(self, app: Flask) -> bool:
        """Tell whether it is registered on this one."""

    def __hash__(self) -> int:
        """Each is one of its own."""

    def _forget_plans(self) -> None:
        """Take notice that what is limited has changed."""


class Mark:
    """The limits that one decorator puts on one thing; each is one of its own, whatever its options."""

    __slots__ = ("limiter", "options")

    def __init__(self, options: LimitOptions, limiter: Owner | None) -> None:
        """Keep the options; ``limiter`` is the RateLimit, or None for the module's ``rate_limit``."""
        self.options = options
        self.limiter = limiter


Marks = tuple[Mark, ...]
"""Marks of one thing, those of the innermost decorator first."""

_above: WeakKeyDictionary[Callable[..., Any], Marks] = WeakKeyDictionary()
_on_blueprints: WeakKeyDictionary[Blueprint, Marks] = WeakKeyDictionary()


def marks_of(function: object) -> Marks:
    """Return the marks that a call of the function passes through."""
    marks: Marks = getattr(function, MARKS, ())
    return marks


def leave_mark(target: Callable[..., Any], mark: Mark) -> Marks:
    """Note a decorator above ``target`` and return all marks of the function it makes."""
    # No route is made during a request, and what is decorated then, each time anew, must not pile up.
    for function in () if has_request_context() else wrapped_chain(target):
        try:
            _above[function] = (*_above.get(function, ()), mark)
        except TypeError:  # cannot be referred to weakly, so it is nothing that @app.route returns
            continue
    return (*marks_of(target), mark)


def marks_above(function: Callable[..., Any]) -> Marks:
    """Return the marks of decorators above the function, which a call of it does not pass through."""
    try:
        return _above.get(function, ())
    except TypeError:
        return ()


def mark_blueprint(blueprint: Blueprint, mark: Mark) -> None:
    """Note limits for all views of a blueprint."""
    _on_blueprints[blueprint] = (*marks_of_blueprint(blueprint), mark)


def marks_of_blueprint(blueprint: Blueprint) -> Marks:
    """Return the marks of a blueprint itself."""
    return _on_blueprints.get(blueprint, ())


def wrapped_chain(function: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function and what ``functools.wraps`` says it wraps, from the outside to the inside."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)
