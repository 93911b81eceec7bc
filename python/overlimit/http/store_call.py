"""One call to a store: what a request is charged there, and what header fields tell of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from overlimit import Decision, _core
from overlimit.http.charges import Charge, Role, strictness
from overlimit.http.fields import POLICY, RATE, HeaderNames, Item, policy_field
from overlimit.http.identities import Identities, ReadsRequest, as_identifiers
from overlimit.http.installation import Installation
from overlimit.http.policy_names import distinct

__all__ = ["StoreCall", "rate_fields"]

Keys = tuple[tuple[str, ...] | None, ...]
"""Per charge what stands before the state of each of its limits; None for what is not shown."""


class StoreCall:
    """Charges on one store, with everything that is the same for each request worked out.

    ``installations`` are those that it decides for; either all of them or none are in shadow. Charges of one
    policy are joined. ``policy_field`` is the value of ``RateLimit-Policy``, empty without ``items``, and
    ``rate_field`` formats that of ``RateLimit`` for a decision of its own. ``legacy_names`` is what the
    ``X-RateLimit-*`` fields are called; None: there are none.
    """

    __slots__ = (
        "_names",
        "_read_from_request",
        "_rules",
        "_strictest",
        "charges",
        "enforces",
        "has_shadows",
        "in_shadow",
        "installations",
        "items",
        "legacy_names",
        "policy_field",
        "rate_field",
        "returnable",
    )

    def __init__(self, installations: tuple[Installation, ...], charges: Iterable[Charge]) -> None:
        """Take at least one of each."""
        self.installations = installations
        self.charges = _joined(charges)
        # As for decisions, the strictest of a request's limits says what happens when a refund fails.
        self._strictest = max((charge.limiter for charge in self.charges), key=strictness)
        self._rules = tuple((each.limiter, each.identify, each.cost, int(each.role)) for each in self.charges)
        self._read_from_request = tuple(
            each.identify for each in self.charges if isinstance(each.identify, ReadsRequest)
        )
        roles = {charge.role for charge in self.charges}
        self.has_shadows = Role.SHADOW in roles
        self.enforces = Role.ENFORCE in roles
        self.in_shadow = installations[0].shadow
        self.items = _renamed(item for charge in self.charges if charge.is_shown for item in charge.items())
        self._names = _names(self.charges, self.items)
        self.policy_field = policy_field(self.items)
        self.rate_field: Callable[[Decision], str] = partial(
            _core._rate_field, _keys(self.charges, self.items)
        )
        self.legacy_names = self._legacy_names() if self.enforces else None
        self.returnable = tuple(i for i, charge in enumerate(self.charges) if charge.deduct_when is not None)

    def _legacy_names(self) -> HeaderNames | None:
        names = (each.legacy_names for each in self.installations if each.legacy_names is not None)
        return next(names, None)

    @property
    def retry_after_name(self) -> str:
        """What Retry-After is called."""
        return self.installations[0].header_names.retry_after

    def decide(self, identities: Identities) -> Decision:
        """Charge a request.

        Raises
        ------
        StoreError
            The store failed, and ``on_error`` says to raise that.
        ValueError, TypeError
            A cost, or who is charged, is not what it must be.
        """
        for identify in self._read_from_request:
            identities[identify]
        # The core asks the others, and costs: that is the fast path.
        return _core._hit_rules(self._rules, identities, as_identifiers, identities.request.arguments)

    def refuses(self, decision: Decision) -> bool:
        """Tell whether a decision of this call refuses the request; shadow limits alone refuse nobody."""
        return not decision and (self.enforces or decision._refused_by_meta)

    def refuses_in_shadow(self, decision: Decision) -> bool:
        """Tell whether a shadow limit, and nothing else, would have refused."""
        if not self.has_shadows or self.refuses(decision):
            return False
        return any(charge.role is Role.SHADOW for charge in self.refusing(decision))

    def shown(self, decision: Decision) -> Decision:
        """Return the decision, or what shadow limits would have answered that alone would have refused."""
        return decision._with_shadows_enforced() if self.refuses_in_shadow(decision) else decision

    def refusing(self, decision: Decision) -> tuple[Charge, ...]:
        """Return the charges that refused, shadow ones included."""
        names = {row.policy for row in decision.details if not row.allowed}
        return tuple(charge for charge in self.charges if charge.limiter.name in names)

    def violated(self, decision: Decision, charges: Iterable[Charge]) -> list[str]:
        """Return the names that the limits of these charges have in the fields, of those that refused."""
        refused = {(row.policy, row.limit) for row in decision.details if not row.allowed}
        return [
            name
            for charge in charges
            for limit, name in zip(charge.limiter.limits, self._names[id(charge)], strict=True)
            if (charge.limiter.name, limit) in refused
        ]

    def refund(self, decision: Decision) -> None:
        """Give back everything."""
        self._strictest.refund(decision)

    def give_back(self, decision: Decision, response: Any, identities: Identities) -> None:
        """Refund what does not count, seeing the response, in one call to the store.

        What ``deduct_when`` raises is raised once the others are heard and refunded.
        """
        places: list[int] = []
        raised: Exception | None = None
        for index in self.returnable:
            try:
                places += self._returned(index, response, identities)
            except Exception as error:
                raised = raised or error
        if places:
            self._strictest._refund_part(decision, places)
        if raised is not None:
            raise raised

    def _returned(self, index: int, response: Any, identities: Identities) -> range:
        deduct_when = self.charges[index].deduct_when
        if deduct_when is None or deduct_when(response, *identities.request.arguments):
            return range(0)
        first = sum(len(identities[charge.identify]) for charge in self.charges[:index])
        return range(first, first + len(identities[self.charges[index].identify]))


def rate_fields(decided: Iterable[tuple[StoreCall, Decision | None]]) -> list[tuple[str, str]]:
    """Return ``RateLimit-Policy`` and ``RateLimit`` for all calls that decided a request; none without items.

    A call without a decision is not told of; it keeps its names from others.
    """
    named = [(call, decision) for call, decision in decided if call.items]
    items = iter(_renamed(item for call, _ in named for item in call.items))
    policies, states = [], []
    for call, decision in named:
        own = tuple(islice(items, len(call.items)))
        if decision is not None:
            policies.append(policy_field(own))
            states.append(_core._rate_field(_keys(call.charges, own), decision))
    return [(POLICY, ", ".join(policies)), (RATE, ", ".join(states))] if policies else []


def _joined(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    by_name: dict[str | None, Charge] = {}
    for charge in charges:
        name = charge.limiter.name
        by_name[name] = by_name[name].joined(charge) if name in by_name else charge
    return tuple(by_name.values())


def _keys(charges: Iterable[Charge], items: Iterable[Item]) -> Keys:
    """Return what stands before each state, by charge; ``items`` are those of the charges that are shown."""
    texts = iter([f"{item.key};r=" for item in items])
    return tuple(
        tuple(next(texts) for _ in charge.limiter.limits) if charge.is_shown else None for charge in charges
    )


def _names(charges: Iterable[Charge], items: Iterable[Item]) -> dict[int, list[str]]:
    """Return the names of the limits of each charge, by its id; those not shown keep their own."""
    shown = iter(items)
    return {
        id(charge): [
            item.name
            for item in (islice(shown, len(charge.limiter.limits)) if charge.is_shown else charge.items())
        ]
        for charge in charges
    }


def _renamed(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items with names that are unique within one header."""
    given = tuple(items)
    names = distinct(item.name for item in given)
    return tuple(item._replace(name=name) for item, name in zip(given, names, strict=True))
