"""What a decorator leaves on a function, and how it is found again on a registered view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from flask import has_request_context

from overlimit.http.plan import Identify
from overlimit.limits import LimitsLike

if TYPE_CHECKING:
    from overlimit.flask.extension import RateLimit

__all__ = ["MARKS", "Mark", "Marks", "leave_mark", "marks_above", "marks_of"]

MARKS = "__overlimit__"
"""The attribute with a function's marks; ``functools.wraps`` hands it on to the decorators above."""


class Mark:
    """The limits of one decorator; each is one of its own, whatever its values."""

    __slots__ = ("algorithm", "identifiers", "limiter", "limits", "name")

    def __init__(
        self,
        limits: LimitsLike,
        limiter: RateLimit | None,
        identifiers: Identify | None,
        algorithm: str | None,
        name: str | None,
    ) -> None:
        """Keep the options of a decorator; ``limiter`` is None for the module's ``rate_limit``."""
        self.limits = limits
        self.limiter = limiter
        self.identifiers = identifiers
        self.algorithm = algorithm
        self.name = name


Marks = tuple[Mark, ...]
"""Marks of one function, those of the innermost decorator first."""

_above: WeakKeyDictionary[Callable[..., Any], Marks] = WeakKeyDictionary()


def marks_of(function: object) -> Marks:
    """Return the marks that a call of the function passes through."""
    marks: Marks = getattr(function, MARKS, ())
    return marks


def leave_mark(target: Callable[..., Any], mark: Mark) -> Marks:
    """Note a decorator above ``target`` and return all marks of the function it makes."""
    # No route is made during a request, and what is decorated then, each time anew, must not pile up.
    for function in () if has_request_context() else _wrapped_chain(target):
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


def _wrapped_chain(function: Any) -> Iterator[Callable[..., Any]]:
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)
