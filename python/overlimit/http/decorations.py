"""What decorators leave on functions and on groups of routes: limits and exemptions.

A group is whatever a framework collects routes in, such as a router.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from overlimit.http.options import LimitOptions
from overlimit.http.policy_names import distinct

if TYPE_CHECKING:
    from overlimit.http.app_rate_limits import RateLimitHandle

__all__ = [
    "ALL_LIMITS",
    "DECORATIONS",
    "HANDED_DOWN",
    "Decoration",
    "Decorations",
    "ExemptionScope",
    "Exemptions",
    "LimitedFunction",
    "add_decoration",
    "decorate_group",
    "decorations_above",
    "decorations_of",
    "decorations_of_group",
    "labelled",
    "wrapped_chain",
]

DECORATIONS = "__overlimit__"
"""The attribute that holds a function's decorations; ``functools.wraps`` copies it to wrappers above."""


class Decoration:
    """The limits that one decorator has put on one function or group; no two of them are equal."""

    __slots__ = ("handle", "options")

    def __init__(self, options: LimitOptions, handle: RateLimitHandle | None) -> None:
        """Keep the options; without a ``handle`` they hold through the first RateLimit of the current app."""
        self.options = options
        self.handle = handle


Decorations = tuple[Decoration, ...]
"""The decorations of one function or group, those of the innermost decorator first."""

_limited_functions: WeakKeyDictionary[Callable[..., Any], LimitedFunction] = WeakKeyDictionary()
_above: WeakKeyDictionary[Callable[..., Any], Decorations] = WeakKeyDictionary()
_on_groups: WeakKeyDictionary[Any, Decorations] = WeakKeyDictionary()


def decorations_of(function: object) -> Decorations:
    """Return the decorations that a call of the function passes through."""
    found: Decorations = getattr(function, DECORATIONS, ())
    return found


def add_decoration(
    target: Callable[..., Any], decoration: Decoration, *, during_request: bool
) -> Decorations:
    """Note a decorator above ``target``, and return all decorations of the function that it makes."""
    # No route is added during a request, and functions that are decorated in each request must not pile up.
    for function in () if during_request else wrapped_chain(target):
        try:
            _above[function] = (*_above.get(function, ()), decoration)
        except TypeError:  # no weak references to it, so it is no function that a route can have
            continue
    return (*decorations_of(target), decoration)


def decorations_above(function: Callable[..., Any]) -> Decorations:
    """Return the decorations above the function, which a call of it does not pass through."""
    try:
        return _above.get(function, ())
    except TypeError:
        return ()


def decorate_group(group: object, decoration: Decoration) -> None:
    """Note limits for all routes of a group."""
    _on_groups[group] = (*decorations_of_group(group), decoration)


def decorations_of_group(group: object) -> Decorations:
    """Return the decorations of a group itself."""
    return _on_groups.get(group, ())


def labelled(decorations: Decorations) -> tuple[tuple[str, Decoration], ...]:
    """Give each decoration of one function or group a label: its name, or its number from the inside."""
    labels = distinct(each.options.name or str(number) for number, each in enumerate(decorations, 1))
    return tuple(zip(labels, decorations, strict=True))


def wrapped_chain(function: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function and what ``functools.wraps`` says it wraps, from the outside to the inside."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


class LimitedFunction:
    """A function and the limits that one wrapper adds to it; adjacent decorators share a wrapper."""

    __slots__ = ("__weakref__", "decorations", "function", "is_innermost", "name")

    def __init__(self, function: Callable[..., Any], decorations: Decorations, *, is_innermost: bool) -> None:
        """Put limits on ``function``; ``is_innermost`` says that no other wrapper with limits is below."""
        self.function = function
        self.decorations = decorations
        self.is_innermost = is_innermost
        self.name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    @property
    def shown(self) -> str:
        """The name that the limits of a plain function have in header fields."""
        return self.name.rpartition(".")[2]

    @classmethod
    def of(cls, target: Callable[..., Any], decoration: Decoration) -> LimitedFunction:
        """Decorate ``target``: join its wrapper if it is one of ours, or else begin a new one."""
        below = _limited_functions.get(target)
        if below is None:
            return cls(target, (decoration,), is_innermost=not decorations_of(target))
        return cls(below.function, (*below.decorations, decoration), is_innermost=below.is_innermost)

    def set_wrapper(self, wrapper: Callable[..., Any]) -> None:
        """Note the wrapper, which a decorator directly above it then joins."""
        _limited_functions[wrapper] = self


class ExemptionScope(enum.Flag):
    """Which limits an exemption is from."""

    NONE = 0
    """None of them."""
    APPLICATION = enum.auto()
    """The limits of the application."""
    DEFAULT = enum.auto()
    """The default limits, and those of the function's own decorators and of its groups."""
    META = enum.auto()
    """The meta limits."""
    DESCENDENTS = enum.auto()
    """On a group: the groups nested in it are exempt as well."""
    ANCESTORS = enum.auto()
    """On a group: the limits of the groups that it is nested in."""


ALL_LIMITS = ExemptionScope.APPLICATION | ExemptionScope.DEFAULT | ExemptionScope.META

HANDED_DOWN = ExemptionScope.DEFAULT | ExemptionScope.DESCENDENTS
"""With both flags, the limits of a group do not reach the groups nested in it."""


class Exemptions:
    """The functions and groups that one RateLimit does not limit."""

    def __init__(self) -> None:
        """Start without any."""
        self._flags: WeakKeyDictionary[Any, ExemptionScope] = WeakKeyDictionary()

    def add(self, target: object, flags: ExemptionScope) -> None:
        """Exempt a view, however it is wrapped later, a method of a class view, or a group of routes.

        Raises
        ------
        TypeError
            ``flags`` is not an ExemptionScope.
        """
        if not isinstance(flags, ExemptionScope):
            raise TypeError(f"flags must be an ExemptionScope, not {flags!r}")
        self._flags[target] = self._flags.get(target, ExemptionScope.NONE) | flags

    def of_handlers(self, handlers: Iterable[Callable[..., Any]]) -> ExemptionScope:
        """Return what functions themselves are exempt from, however they are wrapped."""
        found = ExemptionScope.NONE
        for handler in handlers:
            for function in wrapped_chain(handler):
                found |= self._flags.get(function, ExemptionScope.NONE)
        return found

    def of_group(self, group: object) -> ExemptionScope:
        """Return what a group itself is exempt from."""
        return self._flags.get(group, ExemptionScope.NONE)
