"""The compiled plan of a route: what a request is checked against, decided in one call to the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from overlimit import Decision, Limiter, _core
from overlimit.http.fields import Item, policy_field
from overlimit.http.identities import Distinct, Identifiers, as_identifiers
from overlimit.http.policy_names import distinct
from overlimit.http.rules import Choice, Identify, Role, Rule

__all__ = ["MOST_PLANS", "People", "Plan", "Planner", "Ruling", "header_fields"]

MOST_PLANS = 256
"""How many of what depends on the request are kept: plans, and limiters of one decorator."""

People = dict[Identify, Identifiers]
"""Whom each callable named in this request, so that it is asked only once."""

Keys = tuple[tuple[str, ...] | None, ...]
"""Per rule what stands before the state of each of its limits; None for what is not shown."""

Charge = tuple[Limiter, str | bytes, int, int]


class Plan:
    """The rules of one route on one store, with everything that is the same for each request worked out."""

    __slots__ = (
        "_charged",
        "_hit_alone",
        "enforces",
        "has_shadows",
        "items",
        "keys",
        "policy_field",
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
        self._charged = tuple((rule.limiter, rule.identify, rule.cost, int(rule.role)) for rule in self.rules)
        alone = len(self.rules) == 1 and roles == {Role.ENFORCE}
        self._hit_alone = self.rules[0].limiter.hit if alone else None
        self.items = renamed(item for rule in self.rules if _is_shown(rule) for item in rule.items())
        self.keys = keys_of(self.rules, self.items)
        self.policy_field = policy_field(self.items)
        self.returnable = tuple(i for i, rule in enumerate(self.rules) if rule.terms.deduct_when is not None)

    def decide(self, people: People) -> Ruling:
        """Charge one request, whose identifiers are read from and added to ``people``: one store call.

        Raises
        ------
        StoreError
            The store failed, and a policy's ``on_error`` says to raise that.
        ValueError, TypeError
            A cost, or who is charged, is not what it must be.
        """
        if self._hit_alone is not None:
            _, identify, cost, _ = self._charged[0]
            identifiers = people.get(identify) or _named(people, identify)
            if cost == 1:
                return Ruling(self, self._hit_alone(*identifiers), (len(identifiers),))
        charges, counts = self._charges(people)
        return Ruling(self, _core._hit_in_roles(charges), counts)

    def peek(self, people: People) -> Ruling:
        """Say what `decide` would answer now; nothing is charged."""
        charges, counts = self._charges(people)
        return Ruling(self, _core._peek_in_roles(charges), counts)

    def _charges(self, people: People) -> tuple[list[Charge], tuple[int, ...]]:
        charges: list[Charge] = []
        counts = []
        for limiter, identify, cost, role in self._charged:
            identifiers = people.get(identify) or _named(people, identify)
            units = cost if isinstance(cost, int) else cost()
            counts.append(len(identifiers))
            charges += [(limiter, identifier, units, role) for identifier in identifiers]
        return charges, tuple(counts)


class Ruling(NamedTuple):
    """What a plan answered to one request, with the number of identifiers of each rule."""

    plan: Plan
    decision: Decision
    counts: tuple[int, ...]

    @property
    def shown_decision(self) -> Decision:
        """The decision; where shadow limits alone would have refused, what they would have answered."""
        return self.decision._with_shadows_enforced() if self.refused_in_shadow else self.decision

    @property
    def refused(self) -> bool:
        """Whether the request is refused; shadow limits alone refuse nobody."""
        if self.decision:
            return False
        return self.plan.enforces or self.decision._refused_by_meta

    @property
    def refused_in_shadow(self) -> bool:
        """Whether a shadow limit, and nothing else, would have refused."""
        if not self.plan.has_shadows or self.refused:
            return False
        return any(rule.role is Role.SHADOW for rule in self.refusing())

    def refusing(self) -> tuple[Rule, ...]:
        """Return the rules that refused, shadow ones included."""
        names = {row.policy for row in self.decision.details if not row.allowed}
        return tuple(rule for rule in self.plan.rules if rule.limiter.name in names)

    def refund(self) -> None:
        """Give back everything."""
        self.plan.rules[0].limiter.refund(self.decision)

    def give_back(self, response: Any) -> None:
        """Refund what does not count, seeing the response, in one call to the store.

        What ``deduct_when`` raises is raised once the others are heard and refunded.
        """
        places: list[int] = []
        raised: Exception | None = None
        for index in self.plan.returnable:
            try:
                places += self._returned(index, response)
            except Exception as error:
                raised = raised or error
        if places:
            self.plan.rules[0].limiter._refund_part(self.decision, places)
        if raised is not None:
            raise raised

    def _returned(self, index: int, response: Any) -> range:
        deduct_when = self.plan.rules[index].terms.deduct_when
        if deduct_when is None or deduct_when(response):
            return range(0)
        first = sum(self.counts[:index])
        return range(first, first + self.counts[index])


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


def header_fields(rulings: Sequence[Ruling]) -> tuple[str, str]:
    """Format the values of ``RateLimit-Policy`` and ``RateLimit`` for all that ruled on one request."""
    if len(rulings) == 1:
        (ruling,) = rulings
        return ruling.plan.policy_field, _core._rate_field(ruling.decision, ruling.plan.keys)
    items = renamed(item for ruling in rulings for item in ruling.plan.items)
    states = []
    first = 0
    for ruling in rulings:
        end = first + len(ruling.plan.items)
        states.append(_core._rate_field(ruling.decision, keys_of(ruling.plan.rules, items[first:end])))
        first = end
    return policy_field(items), ", ".join(filter(None, states))


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


def _named(people: People, identify: Identify) -> Identifiers:
    found = identify()
    identifiers = people[identify] = found if type(found) is Distinct else as_identifiers(found)
    return identifiers
