"""How an identifier stands under every limit of an app, and fresh starts for all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flask import Flask

from overlimit.flask.binding import Binding
from overlimit.flask.descriptions import Description, terms_of
from overlimit.flask.inventory import Entry, Held, entries_of
from overlimit.http.making import Forget
from overlimit.http.rules import Rule, items_of

__all__ = ["Policy", "forget_counts", "policies_of", "standing"]

_UNMEASURED = dict.fromkeys(("limit", "quota", "remaining", "retry_after", "reset_after", "status", "locked"))


class Policy(NamedTuple):
    """A policy of the app, with the endpoints it may hold for.

    ``name`` is that of its counts; None when it's known only during a request.
    """

    held: Held
    name: str | None
    endpoints: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The name of its counts, or else the one it has in header fields."""
        return self.name or self.held.placed.shown


def policies_of(entries: Iterable[Entry]) -> tuple[Policy, ...]:
    """Return every policy once, in the order of the endpoints."""
    found: dict[tuple[object, ...], Policy] = {}
    for entry in entries:
        for held in entry.held:
            name = _name_of(held)
            where = (id(held.binding.store), name) if name else (id(held.binding), *held.placed.origin[:2])
            known = found.get(where, Policy(held, name, ()))
            endpoints = dict.fromkeys((*known.endpoints, entry.route.endpoint))
            found[where] = known._replace(endpoints=tuple(endpoints))
    return tuple(found.values())


def standing(policy: Policy, identifier: str) -> Iterator[Description]:
    """Yield how the identifier stands under each limit of a policy; nothing is charged.

    Raises
    ------
    StoreError
        The store cannot answer.
    """
    held = policy.held
    rule = _rule_of(held) if policy.name else None
    terms = {"policy": policy.name, "endpoints": list(policy.endpoints), **terms_of(held)}
    if rule is None:
        yield {"name": held.placed.shown, **_UNMEASURED, **terms}
        return
    for found in _measured(rule, identifier):
        yield {**found, **terms}


def forget_counts(app: Flask, binding: Binding, endpoint: str | None, forget: Forget) -> None:
    """Give a fresh start under all that one RateLimit counts on an app, or under what counts one endpoint.

    Of counts whose names only a request tells, those that this process has made lately.

    Raises
    ------
    StoreError
        The store cannot answer.
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    own = [each for each in policies_of(entries_of(app)) if each.held.binding is binding]
    if endpoint is not None:
        own = [each for each in own if each.held.placed.counted_endpoint == endpoint]
    binding.forget((each.name for each in own if each.name), endpoint, forget)


def _measured(rule: Rule, identifier: str) -> Iterator[Description]:
    """Yield the state of each limit now, and when it has room for what one request costs."""
    now = rule.limiter.peek(identifier, cost=0)
    next_one = rule.limiter.peek(identifier, cost=rule.cost if isinstance(rule.cost, int) else 1)
    items = items_of(rule.name, rule.limiter.limits)
    for item, present, ahead in zip(items, now.details, next_one.details, strict=True):
        yield {
            "name": item.name,
            "limit": present.limit.label,
            "quota": present.limit.quota,
            "remaining": present.remaining,
            "retry_after": None if ahead.retry_after == math.inf else ahead.retry_after,
            "reset_after": present.reset_after,
            "status": "ok" if ahead.allowed else next_one.status,
            "locked": now.status == "locked",
        }


def _rule_of(held: Held) -> Rule | None:
    """Return the rule that holds now, with a store whose failures are raised; None: only a request tells."""
    placed = held.placed
    raising = placed._replace(
        maker=placed.maker._replace(on_error="raise"),
        options=dataclasses.replace(placed.options, on_error=None),
    )
    try:
        return raising.rule_now()
    except Exception:  # what a function of the app raises when there is no request
        return None


def _name_of(held: Held) -> str | None:
    try:
        return held.placed.policy_name_now()
    except Exception:  # as above
        return None
