"""Which views and blueprints a RateLimit does not concern."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from flask import Blueprint

from overlimit.flask.marks import wrapped_chain

__all__ = ["ALL_LIMITS", "ExemptionScope", "Exemptions"]


class ExemptionScope(enum.Flag):
    """What an exemption is from."""

    NONE = 0
    """Nothing."""
    APPLICATION = enum.auto()
    """The limits of the application."""
    DEFAULT = enum.auto()
    """What routes have without a decorator: default limits, and those of blueprints."""
    META = enum.auto()
    """The meta limits."""
    DESCENDENTS = enum.auto()
    """Of a blueprint: the same for the blueprints nested in it."""
    ANCESTORS = enum.auto()
    """Of a blueprint: from the limits of those it is nested in."""


ALL_LIMITS = ExemptionScope.APPLICATION | ExemptionScope.DEFAULT | ExemptionScope.META


class Exemptions:
    """What one RateLimit has been told to leave alone."""

    def __init__(self) -> None:
        """Start without any."""
        self._flags: WeakKeyDictionary[Any, ExemptionScope] = WeakKeyDictionary()

    def add(self, what: Callable[..., Any] | Blueprint, flags: ExemptionScope) -> None:
        """Exempt a view, however it is wrapped later, or a blueprint."""
        self._flags[what] = self._flags.get(what, ExemptionScope.NONE) | flags

    def of_view(self, view: Callable[..., Any]) -> ExemptionScope:
        """Return what a view itself is exempt from."""
        found = ExemptionScope.NONE
        for function in wrapped_chain(view):
            found |= self._flags.get(function, ExemptionScope.NONE)
        return found

    def of_blueprint(self, blueprint: Blueprint) -> ExemptionScope:
        """Return what a blueprint itself is exempt from."""
        return self._flags.get(blueprint, ExemptionScope.NONE)

    def of_route(self, view: Callable[..., Any], blueprints: Sequence[Blueprint]) -> ExemptionScope:
        """Return what a view in these blueprints, the innermost first, is exempt from."""
        found = self.of_view(view)
        for depth, blueprint in enumerate(blueprints):
            flags = self.of_blueprint(blueprint)
            if depth == 0 or ExemptionScope.DESCENDENTS in flags:
                found |= flags & ALL_LIMITS
        return found
