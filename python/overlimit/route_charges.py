"""Under which policies an app would charge a request, as far as its method and its path tell.

Web apps and files of limits say it, and simulations ask.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from overlimit.limits import Limit
from overlimit.limits.penalty import Penalty
from overlimit.limits_file import FilePolicy

ENFORCE, SHADOW, ON_REFUSAL = range(3)
"""How a policy takes part, by the numbers of the core: refuses, never does, or counts what others refuse."""


class RouteCharge(NamedTuple):
    """A policy that a request is charged under."""

    counted_as: Hashable
    """Where it counts: policies of the same share their counts, as far as their limits are alike."""
    title: str
    """What it is called in answers: a pattern, an endpoint, ``default`` and the like."""
    limits: tuple[Limit, ...]
    penalty: Penalty | None = None
    cost: int | None = None
    """What the request spends; None: what it is said to cost."""
    role: int = ENFORCE
    whose: tuple[tuple[str, ...], ...] | None = None
    """The kinds of identifiers that it counts, such as ``ip``, of several in one the first that there is;
    None: all; empty: everybody together."""
    skips_anonymous: bool = False
    """Whether it does not hold for requests without such an identifier."""


class RouteStep(NamedTuple):
    """Policies that are decided together, all or nothing."""

    charges: tuple[RouteCharge, ...]
    in_shadow: bool = False
    """Whether the request passes whatever is decided."""
    unknown: tuple[str, ...] = ()
    """What is left out or taken for granted, as only a request could tell."""


RouteSteps: TypeAlias = tuple[RouteStep, ...]
"""What is decided one after the other: where one refuses, those before are refunded. Empty: nothing is."""


@runtime_checkable
class LimitsRoutes(Protocol):
    """What knows under which policies requests are charged."""

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request."""


def of_policy(count: str, title: str, policy: FilePolicy) -> RouteCharge:
    """Return how a policy of a file is charged."""
    role = SHADOW if policy.shadow else ENFORCE
    return RouteCharge(count, title, policy.limits, policy.penalty, policy.cost, role)
