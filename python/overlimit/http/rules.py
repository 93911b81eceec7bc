"""Rules: one policy each, who is charged under it, in which role, and what else was said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from overlimit import Decision, Limiter
from overlimit.http.fields import Item
from overlimit.http.identities import Identify, as_identifiers
from overlimit.limits import Limit

__all__ = ["NO_TERMS", "Choice", "Cost", "Role", "Rule", "Terms", "VaryingLimiter", "items_of", "strictness"]

Cost = int | Callable[[], int]
"""What a request spends, or a function without parameters that says so during the request."""


_BY_STRICTNESS = ("allow", "local", "deny", "raise")


class Role(IntEnum):
    """What a charge does to the call it is part of; the numbers are those of the engine."""

    ENFORCE = 0
    """Refuses when its limit does."""
    SHADOW = 1
    """Is evaluated and charged like the enforced ones, and never refuses."""
    ON_REFUSAL = 2
    """A meta limit: charged when the enforced ones refuse; refuses everything once it is used up."""


class Terms(NamedTuple):
    """What was said about a limit beside its numbers; None: nothing."""

    deduct_when: Callable[[Any], object] | None = None
    """Given the response: whether the request counts."""
    on_breach: tuple[Callable[[Decision], object], ...] = ()
    """Called with a refusal, one after the other; each may return a response, and the last one counts."""
    error_message: str | Callable[[], str] | None = None
    """The refusal's description."""

    def joined(self, other: Terms) -> Terms:
        """Return the terms of both: what counts for either counts, and all hooks are told."""
        return Terms(
            _either(self.deduct_when, other.deduct_when),
            tuple(dict.fromkeys((*self.on_breach, *other.on_breach))),
            self.error_message or other.error_message,
        )


NO_TERMS = Terms()


class VaryingLimiter(Limiter):
    """A limiter whose limits depend on the request: others of its name are meant."""

    def _register(self, name: str | None) -> None:
        """Be compared with none."""


class Rule(NamedTuple):
    """One policy of a plan, who is charged under it, and the name it is shown under."""

    limiter: Limiter
    identify: Identify
    name: str
    role: Role = Role.ENFORCE
    cost: Cost = 1
    terms: Terms = NO_TERMS
    in_fields: bool = True
    """Whether the ``RateLimit`` fields tell of it, if it's enforced."""
    exempts_nobody: bool = False
    """Whether it leaves requests with an empty identity alone."""

    def joined(self, other: Rule) -> Rule:
        """Return one rule for two of one policy: their limits, the stricter ones, and the highest cost."""
        return self._replace(
            limiter=_joined(self.limiter, other.limiter),
            identify=_all_of(self.identify, other.identify),
            cost=_highest(self.cost, other.cost),
            terms=self.terms.joined(other.terms),
            in_fields=self.in_fields or other.in_fields,
        )

    def items(self) -> Iterator[Item]:
        """Yield one header item per limit."""
        return items_of(self.name, self.limiter.limits)


def items_of(name: str, limits: Sequence[Limit]) -> Iterator[Item]:
    """Yield one item per limit: a policy of one limit shows exactly its name."""
    for limit in limits:
        shown = name if len(limits) == 1 else f"{name}:{limit.label}"
        yield Item(shown, limit.quota, limit.window)


def strictness(limiter: Limiter) -> int:
    """Return a larger number for a stricter ``on_error``."""
    return _BY_STRICTNESS.index(limiter.on_error)


def _all_of(one: Identify, other: Identify) -> Identify:
    return one if one == other else lambda: (*as_identifiers(one()), *as_identifiers(other()))


def _joined(one: Limiter, other: Limiter) -> Limiter:
    """Return a limiter with the limits of both, of those that share a count the stricter."""
    by_count = _by_count(one)
    for count, limit in _by_count(other).items():
        by_count[count] = min(by_count.get(count, limit), limit, key=_room)
    strictest = max(one, other, key=strictness)
    return VaryingLimiter(
        list(by_count.values()),
        name=one.name,
        store=one.store,
        clock=one.clock,
        on_error=strictest.on_error,
        local_share=one.local_share,
    )


def _by_count(limiter: Limiter) -> dict[tuple[int, int], Limit]:
    """Return the limits by what their counts are found by: those alike in that are numbered."""
    alike: Counter[int] = Counter()
    found = {}
    for limit in limiter.limits:
        tag = limit._core_limit.tag
        found[tag, alike[tag]] = limit
        alike[tag] += 1
    return found


def _room(limit: Limit) -> tuple[int, float]:
    return limit.quota, -limit.window


def _highest(one: Cost, other: Cost) -> Cost:
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return lambda: max(_units(one), _units(other))


def _units(cost: Cost) -> int:
    return cost if isinstance(cost, int) else cost()


def _either(
    one: Callable[[Any], object] | None, other: Callable[[Any], object] | None
) -> Callable[[Any], object] | None:
    if one is None or other is None:
        return None
    return lambda response: any([one(response), other(response)])


Choice = Rule | Callable[[], Rule | None]
"""A rule, or a function that says during a request which one holds, if any."""
