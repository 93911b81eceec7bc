"""What a plan answered to a request: whether it is refused, what of it is given back, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overlimit import Decision, _core
from overlimit.http.fields import POLICY, RATE, policy_field
from overlimit.http.identities import People
from overlimit.http.plan import Plan, keys_of, renamed
from overlimit.http.rules import Role, Rule

__all__ = ["Ruling", "rate_fields"]


class Ruling:
    """What a plan answered to one request."""

    __slots__ = ("decision", "plan")

    def __init__(self, plan: Plan, decision: Decision) -> None:
        """Keep the plan and its decision."""
        self.plan = plan
        self.decision = decision

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

    def give_back(self, response: Any, people: People) -> None:
        """Refund what does not count, seeing the response, in one call to the store; ``people`` were charged.

        What ``deduct_when`` raises is raised once the others are heard and refunded.
        """
        places: list[int] = []
        raised: Exception | None = None
        for index in self.plan.returnable:
            try:
                places += self._returned(index, response, people)
            except Exception as error:
                raised = raised or error
        if places:
            self.plan.rules[0].limiter._refund_part(self.decision, places)
        if raised is not None:
            raise raised

    def _returned(self, index: int, response: Any, people: People) -> range:
        rules = self.plan.rules
        deduct_when = rules[index].terms.deduct_when
        if deduct_when is None or deduct_when(response):
            return range(0)
        first = sum(len(people[rule.identify]) for rule in rules[:index])
        return range(first, first + len(people[rules[index].identify]))


def rate_fields(rulings: Sequence[Ruling]) -> list[tuple[str, str]]:
    """Return ``RateLimit-Policy`` and ``RateLimit`` for all that ruled on one request; none without items."""
    items = renamed(item for ruling in rulings for item in ruling.plan.items)
    if not items:
        return []
    states = []
    first = 0
    for ruling in rulings:
        end = first + len(ruling.plan.items)
        states.append(_core._rate_field(keys_of(ruling.plan.rules, items[first:end]), ruling.decision))
        first = end
    return [(POLICY, policy_field(items)), (RATE, ", ".join(filter(None, states)))]
