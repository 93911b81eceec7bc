"""Which views and blueprints a RateLimit does not concern."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from flask import Blueprint

from overlimit.flask.marks import wrapped_chain
from overlimit.flask.routes import Route

__all__ = ["ALL_LIMITS", "HANDED_DOWN", "ExemptionScope", "Exemptions"]


class ExemptionScope(enum.Flag):
    """What an exemption is from."""

    NONE = 0
    """Nothing."""
    APPLICATION = enum.auto()
    """The limits of the application."""
    DEFAULT = enum.auto()
    """Default limits; of a view also those of its decorators and of its blueprints."""
    META = enum.auto()
    """The meta limits."""
    DESCENDENTS = enum.auto()
    """Of a blueprint: the same for the blueprints nested in it."""
    ANCESTORS = enum.auto()
    """Of a blueprint: from the limits of those it is nested in."""


ALL_LIMITS = ExemptionScope.APPLICATION | ExemptionScope.DEFAULT | ExemptionScope.META

HANDED_DOWN = ExemptionScope.DEFAULT | ExemptionScope.DESCENDENTS
"""With both a blueprint's own limits don't reach those nested in it."""


class Exemptions:
    """What one RateLimit has been told to leave alone."""

    def __init__(self) -> None:
        """Start without any."""
        self._flags: WeakKeyDictionary[Any, ExemptionScope] = WeakKeyDictionary()

    def add(self, what: Callable[..., Any] | Blueprint, flags: ExemptionScope) -> None:
        """Exempt a view, however it is wrapped later, a method of a class view, or a blueprint.

        Raises
        ------
        TypeError
            It is none of these.
        """
        if isinstance(what, type):
            raise TypeError(f"{what.__name__} is a class: put the exemption into its decorators = [...]")
        if not (callable(what) or isinstance(what, Blueprint)):
            raise TypeError(f"only a function or a blueprint can be exempt, not {what!r}")
        if not isinstance(flags, ExemptionScope):
            raise TypeError(f"flags must be an ExemptionScope, not {flags!r}")
        self._flags[what] = self._flags.get(what, ExemptionScope.NONE) | flags

    def of_view(self, route: Route) -> ExemptionScope:
        """Return what the view of a route itself is exempt from."""
        found = ExemptionScope.NONE
        for handler in route.handlers:
            for function in wrapped_chain(handler):
                found |= self._flags.get(function, ExemptionScope.NONE)
        return found

    def of_blueprint(self, blueprint: Blueprint) -> ExemptionScope:
        """Return what a blueprint itself is exempt from."""
        return self._flags.get(blueprint, ExemptionScope.NONE)

    def of_route(self, route: Route) -> ExemptionScope:
        """Return what a route is exempt from, its blueprints' exemptions included."""
        found = self.of_view(route)
        for depth, nest in enumerate(route.nests):
            flags = self.of_blueprint(nest.blueprint)
            if depth == 0 or ExemptionScope.DESCENDENTS in flags:
                found |= flags & ALL_LIMITS
        return found
