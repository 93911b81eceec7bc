"""Which functions and groups of routes, such as blueprints, a RateLimit does not concern."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from overlimit.http.marks import wrapped_chain

__all__ = ["ALL_LIMITS", "HANDED_DOWN", "ExemptionScope", "Exemptions"]


class ExemptionScope(enum.Flag):
    """What an exemption is from."""

    NONE = 0
    """Nothing."""
    APPLICATION = enum.auto()
    """The limits of the application."""
    DEFAULT = enum.auto()
    """Default limits; of a view also those of its decorators and of its groups."""
    META = enum.auto()
    """The meta limits."""
    DESCENDENTS = enum.auto()
    """Of a group: the same for the groups nested in it."""
    ANCESTORS = enum.auto()
    """Of a group: from the limits of those it is nested in."""


ALL_LIMITS = ExemptionScope.APPLICATION | ExemptionScope.DEFAULT | ExemptionScope.META

HANDED_DOWN = ExemptionScope.DEFAULT | ExemptionScope.DESCENDENTS
"""With both a group's own limits don't reach those nested in it."""


class Exemptions:
    """What one RateLimit has been told to leave alone."""

    def __init__(self) -> None:
        """Start without any."""
        self._flags: WeakKeyDictionary[Any, ExemptionScope] = WeakKeyDictionary()

    def add(self, what: object, flags: ExemptionScope) -> None:
        """Exempt a view, however it is wrapped later, a method of a class view, or a group of routes.

        Raises
        ------
        TypeError
            The flags are no ExemptionScope.
        """
        if not isinstance(flags, ExemptionScope):
            raise TypeError(f"flags must be an ExemptionScope, not {flags!r}")
        self._flags[what] = self._flags.get(what, ExemptionScope.NONE) | flags

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
