"""What processes may lease of the limits of an app, and why not, as far as can be said without a request."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from overlimit.http.rules.counts import Role
from overlimit.http.rules.rule import Rule
from overlimit.leasing import bounds
from overlimit.limiter import UnregisteredLimiter
from overlimit.stores import Store

_OPTIONS = ("lease", "lease_in", "max_stale", "remember")
_REASONS = {
    Role.SHADOW: "its requests are counted in shadow, too",
    Role.ON_REFUSAL: "refusals of its requests are charged to meta limits",
}


def options_of(store: Store) -> dict[str, Any]:
    """Return the options of a store by which processes decide without asking or bring counts back."""
    return {name: store._shown[name] for name in _OPTIONS if store._shown.get(name)}


def bounds_of(rule: Rule, together: Collection[Rule]) -> dict[str, Any] | None:
    """Return the bounds of a rule's limiter, which decides with others; None if a function returns limits.

    Without what is held, which only a running process knows.
    """
    limits, rate_limit = rule.limits, rule.rate_limit
    if limits is None:
        return None
    name = rule.policy_name or "-"
    found = bounds(
        UnregisteredLimiter(
            limits, name=name, store=rate_limit.store, clock=rate_limit.clock, penalty=rule.penalty
        )
    )
    reason = found.reason or _reason_of_others(rule, together)
    lease = 0.0 if reason else found.lease
    return {"over": found.over, "stale": found.stale, "lease": lease, "reason": reason}


def _reason_of_others(rule: Rule, together: Collection[Rule]) -> str | None:
    roles = {each.charged_as for each in together if each.rate_limit is rule.rate_limit}
    return next((reason for role, reason in _REASONS.items() if role in roles), None)
