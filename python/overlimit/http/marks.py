"""What a decorator leaves on a function or on a group of routes, and how it is found again.

A group is what a framework puts routes into: a blueprint, a router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from overlimit.http.options import LimitOptions
from overlimit.http.policy_names import distinct

__all__ = [
    "MARKS",
    "Layer",
    "Mark",
    "Marks",
    "Owner",
    "labelled",
    "leave_mark",
    "mark_group",
    "marks_above",
    "marks_of",
    "marks_of_group",
    "wrapped_chain",
]

MARKS = "__overlimit__"
"""The attribute with a function's marks; ``functools.wraps`` hands it on to the decorators above."""


class Owner(Protocol):
    """The RateLimit that limits are bound to."""

    @property
    def _was_registered(self) -> bool:
        """Whether it was ever registered on an app, be that still there or not."""

    def _limits(self, app: Any) -> bool:
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

_layers: WeakKeyDictionary[Callable[..., Any], Layer] = WeakKeyDictionary()
_above: WeakKeyDictionary[Callable[..., Any], Marks] = WeakKeyDictionary()
_on_groups: WeakKeyDictionary[Any, Marks] = WeakKeyDictionary()


def marks_of(function: object) -> Marks:
    """Return the marks that a call of the function passes through."""
    marks: Marks = getattr(function, MARKS, ())
    return marks


def leave_mark(target: Callable[..., Any], mark: Mark, *, during_request: bool) -> Marks:
    """Note a decorator above ``target`` and return all marks of the function it makes."""
    # No route is made during a request, and what is decorated then, each time anew, must not pile up.
    for function in () if during_request else wrapped_chain(target):
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


def mark_group(group: object, mark: Mark) -> None:
    """Note limits for all routes of a group."""
    _on_groups[group] = (*marks_of_group(group), mark)


def marks_of_group(group: object) -> Marks:
    """Return the marks of a group itself."""
    return _on_groups.get(group, ())


def labelled(marks: Marks) -> tuple[tuple[str, Mark], ...]:
    """Tell the marks of one thing apart: by their name, or else by their place from the inside."""
    labels = distinct(mark.options.name or str(number) for number, mark in enumerate(marks, 1))
    return tuple(zip(labels, marks, strict=True))


def wrapped_chain(function: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function and what ``functools.wraps`` says it wraps, from the outside to the inside."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


class Layer:
    """The limits that one wrapper adds to a function; decorators right above each other are one layer."""

    __slots__ = ("__weakref__", "function", "innermost", "marks", "name")

    def __init__(self, function: Callable[..., Any], marks: Marks, *, innermost: bool) -> None:
        """Put ``marks`` on ``function``; ``innermost`` says that there is no other layer below."""
        self.function = function
        self.marks = marks
        self.innermost = innermost
        self.name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    @property
    def shown(self) -> str:
        """The name that the limits of a plain function are shown under."""
        return self.name.rpartition(".")[2]

    @classmethod
    def around(cls, target: Callable[..., Any], mark: Mark) -> Layer:
        """Make the layer of a decorator around ``target``."""
        below = _layers.get(target)
        if below is None:
            return cls(target, (mark,), innermost=not marks_of(target))
        return cls(below.function, (*below.marks, mark), innermost=below.innermost)

    def belongs_to(self, wrapper: Callable[..., Any]) -> None:
        """Note the wrapper, so that a decorator right above it joins this layer."""
        _layers[wrapper] = self
