"""The compiled plan of a route: what a request is checked against, decided in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from overlimit import Decision, _core
from overlimit.http.fields import POLICY, RATE, Item, policy_field
from overlimit.http.identities import NOBODY, People, as_identifiers, whom
from overlimit.http.policy_names import distinct
from overlimit.http.rules import Choice, Role, Rule, strictness

__all__ = ["MOST_PLANS", "Plan", "Planner", "rate_fields"]

MOST_PLANS = 256
"""How many of what depends on the request are kept: plans, and limiters of one decorator."""

Keys = tuple[tuple[str, ...] | None, ...]
"""Per rule what stands before the state of each of its limits; None for what is not shown."""


class Plan:
    """The rules of one route on one store, with everything that is the same for each request worked out.

    ``decide`` charges a request in one call to the store. It raises StoreError when the store failed and a
    policy's ``on_error`` says to raise that, ValueError or TypeError when a cost, or who is charged, is not
    what it must be. ``policy_field`` is the value of ``RateLimit-Policy``, empty without ``items``, and
    ``rate_field`` formats that of ``RateLimit`` for a decision of its own.
    """

    __slots__ = (
        "_names",
        "_strictest",
        "decide",
        "enforces",
        "has_shadows",
        "items",
        "policy_field",
        "rate_field",
        "returnable",
        "rules",
    )

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Compile the rules, at least one; those of one policy are joined."""
        by_name: dict[str | None, Rule] = {}
        for rule in rules:
            name = rule.limiter.name
            by_name[name] = by_name[name].joined(rule) if name in by_name else rule
        self.rules = tuple(by_name.values())
        # As for decisions, the strictest of a request's limits says what happens when a refund fails.
        self._strictest = max((rule.limiter for rule in self.rules), key=strictness)
        roles = {rule.role for rule in self.rules}
        self.has_shadows = Role.SHADOW in roles
        self.enforces = Role.ENFORCE in roles
        charges = tuple((rule.limiter, rule.identify, rule.cost, int(rule.role)) for rule in self.rules)
        self.decide: Callable[[People], Decision] = partial(_core._hit_rules, charges, as_identifiers)
        self.items = _renamed(item for rule in self.rules if _is_shown(rule) for item in rule.items())
        self._names = _names(self.rules, self.items)
        self.policy_field = policy_field(self.items)
        self.rate_field: Callable[[Decision], str] = partial(_core._rate_field, _keys(self.rules, self.items))
        self.returnable = tuple(i for i, rule in enumerate(self.rules) if rule.terms.deduct_when is not None)

    def refuses(self, decision: Decision) -> bool:
        """Tell whether a decision of this plan refuses the request; shadow limits alone refuse nobody."""
        return not decision and (self.enforces or decision._refused_by_meta)

    def refuses_in_shadow(self, decision: Decision) -> bool:
        """Tell whether a shadow limit, and nothing else, would have refused."""
        if not self.has_shadows or self.refuses(decision):
            return False
        return any(rule.role is Role.SHADOW for rule in self.refusing(decision))

    def shown(self, decision: Decision) -> Decision:
        """Return the decision, or what shadow limits would have answered that alone would have refused."""
        return decision._with_shadows_enforced() if self.refuses_in_shadow(decision) else decision

    def refusing(self, decision: Decision) -> tuple[Rule, ...]:
        """Return the rules that refused, shadow ones included."""
        names = {row.policy for row in decision.details if not row.allowed}
        return tuple(rule for rule in self.rules if rule.limiter.name in names)

    def violated(self, decision: Decision, rules: Iterable[Rule]) -> list[str]:
        """Return the names that the limits of these rules have in the fields, of those that refused."""
        refused = {(row.policy, row.limit) for row in decision.details if not row.allowed}
        return [
            name
            for rule in rules
            for limit, name in zip(rule.limiter.limits, self._names[id(rule)], strict=True)
            if (rule.limiter.name, limit) in refused
        ]

    def refund(self, decision: Decision) -> None:
        """Give back everything."""
        self._strictest.refund(decision)

    def give_back(self, decision: Decision, response: Any, people: People) -> None:
        """Refund what does not count, seeing the response, in one call to the store; ``people`` were charged.

        What ``deduct_when`` raises is raised once the others are heard and refunded.
        """
        places: list[int] = []
        raised: Exception | None = None
        for index in self.returnable:
            try:
                places += self._returned(index, response, people)
            except Exception as error:
                raised = raised or error
        if places:
            self._strictest._refund_part(decision, places)
        if raised is not None:
            raise raised

    def _returned(self, index: int, response: Any, people: People) -> range:
        deduct_when = self.rules[index].terms.deduct_when
        if deduct_when is None or deduct_when(response):
            return range(0)
        first = sum(len(people[rule.identify]) for rule in self.rules[:index])
        return range(first, first + len(people[self.rules[index].identify]))


class Planner:
    """From what may hold for a route on one store to the plan for a request."""

    def __init__(self, choices: Iterable[Choice]) -> None:
        """Compile at once what is the same for each request: all of it, if ``fixed`` is there."""
        self._choices = tuple(choices)
        rules = tuple(choice for choice in self._choices if isinstance(choice, Rule))
        is_fixed = rules and len(rules) == len(self._choices)
        self.fixed = Plan(rules) if is_fixed and not any(rule.exempts_nobody for rule in rules) else None
        self._plan_of = lru_cache(MOST_PLANS)(Plan)

    def plan(self, people: People) -> Plan | None:
        """Return the plan for the current request; None when nothing holds. ``people`` are known already.

        Raises
        ------
        InvalidLimit
            A callable returned what is no limit.
        ValueError, TypeError
            A callable named what is no identifier, or too many.
        """
        if self.fixed is not None:
            return self.fixed
        made = (choice if isinstance(choice, Rule) else choice() for choice in self._choices)
        rules = tuple(rule for rule in made if rule is not None and _concerns(rule, people))
        return self._plan_of(rules) if rules else None


def _concerns(rule: Rule, people: People) -> bool:
    return not rule.exempts_nobody or whom(rule.identify, people) is not NOBODY


def rate_fields(decided: Iterable[tuple[Plan, Decision | None]]) -> list[tuple[str, str]]:
    """Return ``RateLimit-Policy`` and ``RateLimit`` for all that decided a request; none without items.

    A plan without a decision is not told of; it keeps its names from others.
    """
    named = [(plan, decision) for plan, decision in decided if plan.items]
    items = iter(_renamed(item for plan, _ in named for item in plan.items))
    policies, states = [], []
    for plan, decision in named:
        own = tuple(islice(items, len(plan.items)))
        if decision is not None:
            policies.append(policy_field(own))
            states.append(_core._rate_field(_keys(plan.rules, own), decision))
    return [(POLICY, ", ".join(policies)), (RATE, ", ".join(states))] if policies else []


def _keys(rules: Iterable[Rule], items: Iterable[Item]) -> Keys:
    """Return what stands before each state, by rule; ``items`` are those of the rules that are shown."""
    texts = iter([f"{item.key};r=" for item in items])
    return tuple(
        tuple(next(texts) for _ in rule.limiter.limits) if _is_shown(rule) else None for rule in rules
    )


def _names(rules: Iterable[Rule], items: Iterable[Item]) -> dict[int, list[str]]:
    """Return the names of the limits of each rule, by its id; those that are not shown keep their own."""
    shown = iter(items)
    return {
        id(rule): [
            item.name
            for item in (islice(shown, len(rule.limiter.limits)) if _is_shown(rule) else rule.items())
        ]
        for rule in rules
    }


def _renamed(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items with names that are unique within one header."""
    given = tuple(items)
    names = distinct(item.name for item in given)
    return tuple(item._replace(name=name) for item, name in zip(given, names, strict=True))


def _is_shown(rule: Rule) -> bool:
    return rule.role is Role.ENFORCE and rule.in_fields
