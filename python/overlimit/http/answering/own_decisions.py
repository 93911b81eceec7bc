"""Decisions that code of the app has made by limiters of its own, as header fields and bodies name them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from overlimit._core import Decision
from overlimit.decisions import Detail
from overlimit.http.answering.fields import (
    LARGEST_INTEGER,
    POLICY,
    RATE,
    Item,
    distinct,
    policy_field,
)
from overlimit.limits import Limit


class OwnDecision:
    """A decision of which no RateLimit knows the rules.

    A limit has the name of its policy, with its label behind that where the policy has several, and the
    label alone where the limiter has no name. Names differ from those that are ``taken``.
    """

    def __init__(self, decision: Decision, taken: Iterable[str] = ()) -> None:
        self.decision = decision
        rows: dict[tuple[str | None, object], list[Detail]] = {}
        for row in decision.details:
            rows.setdefault((row.policy, row.limit), []).append(row)
        limits_of = Counter(policy for policy, _ in rows)
        wanted = [_name(first, alone=limits_of[first.policy] == 1) for first, *_ in rows.values()]
        others = tuple(taken)
        names = distinct((*others, *wanted))[len(others) :]
        self._rows = dict(zip(names, rows.values(), strict=True))

    def violated(self) -> list[str]:
        """Return the names of the limits that refused."""
        return [name for name, rows in self._rows.items() if not all(row.allowed for row in rows)]

    def fields(self) -> list[tuple[str, str]]:
        """Return ``RateLimit-Policy`` and ``RateLimit``; none if no store made the decision."""
        items = [_item(name, rows[0].limit) for name, rows in self._rows.items()]
        states = [
            f"{item.key};{_state(item, rows)}" for item, rows in zip(items, self._rows.values(), strict=True)
        ]
        return [(POLICY, policy_field(items)), (RATE, ", ".join(states))] if items else []


def _item(name: str, limit: Limit) -> Item:
    return Item(name, limit.quota, None if limit._are_slots else limit.window, limit._refills)


def _name(row: Detail, *, alone: bool) -> str:
    if row.policy is None:
        return row.limit.label
    return row.policy if alone else f"{row.policy}:{row.limit.label}"


def _state(item: Item, rows: list[Detail]) -> str:
    """Return what is left of a limit for all identifiers, and until when, as the core does for rules."""
    left = min(row.remaining for row in rows)
    waits = [row.retry_after for row in rows if not row.allowed]
    wait = max(waits or (row.reset_after for row in rows if row.remaining == left))
    time = "" if wait == math.inf else f";t={item.paced(left, math.ceil(wait))}"
    return f"r={min(left, LARGEST_INTEGER)}{time}"
