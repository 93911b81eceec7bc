"""Rules: one policy each, who is charged under it, in which role, and what else was said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from overlimit import Decision, Limiter
from overlimit.http.fields import Item
from overlimit.http.identities import Identify
from overlimit.limits import Limit

__all__ = ["NO_TERMS", "Choice", "Cost", "Role", "Rule", "Terms", "items_of"]

Cost = int | Callable[[], int]
"""What a request spends, or a function without parameters that says so during the request."""


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

    def joined(self, other: Rule) -> Rule:
        """Return one rule for two that share a count: the strictest limits, and the highest cost once."""
        strictest = min(self, other, key=_quotas)
        return strictest._replace(
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


def _quotas(rule: Rule) -> list[int]:
    return [limit.quota for limit in rule.limiter.limits]


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
