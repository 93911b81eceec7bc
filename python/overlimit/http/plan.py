"""The compiled plan of a route: what a request is checked against, decided in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from overlimit import Decision, _core
from overlimit.http.fields import POLICY, RATE, Item, policy_field
from overlimit.http.identities import Identify, People, as_identifiers
from overlimit.http.policy_names import distinct
from overlimit.http.rules import Choice, Role, Rule

__all__ = ["MOST_PLANS", "Plan", "Planner", "keys_of", "renamed"]

MOST_PLANS = 256
"""How many of what depends on the request are kept: plans, and limiters of one decorator."""

Keys = tuple[tuple[str, ...] | None, ...]
"""Per rule what stands before the state of each of its limits; None for what is not shown."""


class Plan:
    """The rules of one route on one store, with everything that is the same for each request worked out.

    ``decide`` charges a request in one call to the store. It raises StoreError when the store failed and a
    policy's ``on_error`` says to raise that, ValueError or TypeError when a cost, or who is charged, is not
    what it must be.
    """

    __slots__ = (
        "_policy_field",
        "_rate_field",
        "decide",
        "enforces",
        "has_shadows",
        "items",
        "returnable",
        "rules",
    )

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Compile the rules, at least one; of those that share a count only the strictest."""
        by_count: dict[tuple[str, Identify], Rule] = {}
        for rule in rules:
            count = rule.limiter.name, rule.identify
            by_count[count] = min(by_count.get(count, rule), rule, key=_quotas)
        self.rules = tuple(by_count.values())
        roles = {rule.role for rule in self.rules}
        self.has_shadows = Role.SHADOW in roles
        self.enforces = Role.ENFORCE in roles
        charges = tuple((rule.limiter, rule.identify, rule.cost, int(rule.role)) for rule in self.rules)
        self.decide: Callable[[People], Decision] = partial(_core._hit_rules, charges, as_identifiers)
        self.items = renamed(item for rule in self.rules if _is_shown(rule) for item in rule.items())
        self._policy_field = policy_field(self.items)
        self._rate_field = partial(_core._rate_field, keys_of(self.rules, self.items))
        self.returnable = tuple(i for i, rule in enumerate(self.rules) if rule.terms.deduct_when is not None)

    def fields(self, decision: Decision) -> list[tuple[str, str]]:
        """Return ``RateLimit-Policy`` and ``RateLimit`` for a decision of its own; none without items."""
        return (
            [(POLICY, self._policy_field), (RATE, self._rate_field(decision))] if self._policy_field else []
        )


class Planner:
    """From what may hold for a route on one store to the plan for a request."""

    def __init__(self, choices: Iterable[Choice]) -> None:
        """Compile at once what is the same for each request: all of it, if ``fixed`` is there."""
        self._choices = tuple(choices)
        rules = tuple(choice for choice in self._choices if isinstance(choice, Rule))
        self.fixed = Plan(rules) if rules and len(rules) == len(self._choices) else None
        self._plan_of = lru_cache(MOST_PLANS)(Plan)

    def plan(self) -> Plan | None:
        """Return the plan for the current request; None when nothing holds.

        Raises
        ------
        InvalidLimit
            A callable returned what is no limit.
        """
        if self.fixed is not None:
            return self.fixed
        made = (choice if isinstance(choice, Rule) else choice() for choice in self._choices)
        rules = tuple(rule for rule in made if rule is not None)
        return self._plan_of(rules) if rules else None


def keys_of(rules: Iterable[Rule], items: Iterable[Item]) -> Keys:
    """Return what stands before each state, by rule; ``items`` are those of the rules that are shown."""
    texts = iter([f"{item.key};r=" for item in items])
    return tuple(
        tuple(next(texts) for _ in rule.limiter.limits) if _is_shown(rule) else None for rule in rules
    )


def renamed(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items with names that are unique within one header."""
    given = tuple(items)
    names = distinct(item.name for item in given)
    return tuple(item._replace(name=name) for item, name in zip(given, names, strict=True))


def _quotas(rule: Rule) -> list[int]:
    return [limit.quota for limit in rule.limiter.limits]


def _is_shown(rule: Rule) -> bool:
    return rule.role is Role.ENFORCE and rule.in_fields
