"""The compiled plan of a route: what a request is checked against, decided in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from overlimit import Decision, Limiter, hit_all
from overlimit.http.fields import Item, policy_field, rate_state
from overlimit.http.identities import Identifiers, as_identifiers
from overlimit.http.policy_names import distinct

__all__ = ["Identify", "People", "Plan", "Rule", "Ruling", "header_fields"]

Identify = Callable[[], object]
"""Returns who sends the current request: one identifier, or an iterable of them."""

People = dict[Identify, Identifiers]
"""Whom each callable named in this request, so that it is asked only once."""


class Rule(NamedTuple):
    """One policy of a plan, who is charged under it, and the name it is shown under."""

    limiter: Limiter
    identify: Identify
    name: str

    def items(self) -> Iterator[Item]:
        """Yield one header item per limit: a policy of one limit shows exactly its name."""
        limits = self.limiter.limits
        for limit in limits:
            name = self.name if len(limits) == 1 else f"{self.name}:{limit.label}"
            yield Item(name, limit.quota, limit.window)


class Plan:
    """The rules of one route on one store, with everything that is the same for each request worked out."""

    __slots__ = ("_limiters", "_widths", "items", "keys", "policy_field")

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Compile the rules; there is at least one."""
        self._limiters = tuple((rule.limiter, rule.identify) for rule in rules)
        self._widths = tuple(len(rule.limiter.limits) for rule in rules)
        self.items = renamed(item for rule in rules for item in rule.items())
        self.keys = tuple(f"{item.key};r=" for item in self.items)
        self.policy_field = policy_field(self.items)

    def decide(self, people: People) -> Ruling:
        """Charge one request, whose identifiers are read from and added to ``people``: one store call."""
        charges: list[tuple[Limiter, str | bytes, int]] = []
        counts = []
        for limiter, identify in self._limiters:
            identifiers = people.get(identify)
            if identifiers is None:
                identifiers = people[identify] = as_identifiers(identify())
            counts.append(len(identifiers))
            charges += [(limiter, identifier, 1) for identifier in identifiers]
        return Ruling(self, hit_all(charges), counts)

    def states(self, decision: Decision, counts: Sequence[int]) -> list[str]:
        """Format the state of each item; ``counts`` is the number of identifiers of each rule."""
        details = decision.details
        states = []
        start = 0
        for width, count in zip(self._widths, counts, strict=True):
            end = start + width * count
            states += [rate_state(details[start + offset : end : width]) for offset in range(width)]
            start = end
        return states


class Ruling(NamedTuple):
    """What a plan answered to one request, with the number of identifiers of each rule."""

    plan: Plan
    decision: Decision
    counts: list[int]

    def rate_field(self, keys: Iterable[str]) -> str:
        """Format the items' states, each behind its key."""
        return ", ".join(map(str.__add__, keys, self.plan.states(self.decision, self.counts)))


def header_fields(rulings: Sequence[Ruling]) -> tuple[str, str]:
    """Format the values of ``RateLimit-Policy`` and ``RateLimit`` for all that ruled on one request."""
    if len(rulings) == 1:
        (ruling,) = rulings
        return ruling.plan.policy_field, ruling.rate_field(ruling.plan.keys)
    items = renamed(item for ruling in rulings for item in ruling.plan.items)
    keys = iter([f"{item.key};r=" for item in items])
    states = [
        f"{next(keys)}{state}"
        for ruling in rulings
        for state in ruling.plan.states(ruling.decision, ruling.counts)
    ]
    return policy_field(items), ", ".join(states)


def renamed(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items with names that are unique within one header."""
    given = tuple(items)
    names = distinct(item.name for item in given)
    return tuple(item._replace(name=name) for item, name in zip(given, names, strict=True))
