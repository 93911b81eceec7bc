"""The limits of an app as data: where they hold, how an identifier stands under them, and its fresh start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from overlimit.http.charges import Charge, items_of
from overlimit.http.functions import shown
from overlimit.http.installation import Forget, Installation
from overlimit.http.options import is_dynamic
from overlimit.http.rules import Rule
from overlimit.stores import Store

__all__ = [
    "Description",
    "Policy",
    "RouteRules",
    "described",
    "forget_counts",
    "policies_of",
    "standing",
    "store_shown",
]

Description = dict[str, Any]
"""What JSON can say: of a route, or of a limit."""

_UNMEASURED = dict.fromkeys(("limit", "quota", "remaining", "retry_after", "reset_after", "status", "locked"))


class RouteRules(NamedTuple):
    """An endpoint for one HTTP method, with its paths and all rules that may hold for it."""

    endpoint: str
    method: str
    paths: tuple[str, ...]
    rules: tuple[Rule, ...]

    @property
    def protected(self) -> bool:
        """Whether any limit can refuse a request to it."""
        return any(rule.can_refuse for rule in self.rules)


class Policy(NamedTuple):
    """A policy of the app, with the endpoints it may hold for.

    ``name`` is that of its counts; None when it's known only during a request.
    """

    rule: Rule
    name: str | None
    endpoints: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The name of its counts, or else the one it has in header fields."""
        return self.name or self.rule.shown


def described(routes: Iterable[RouteRules]) -> list[Description]:
    """Return one description per endpoint, path and limits, with the HTTP methods they hold for."""
    found: dict[tuple[str, str, str], Description] = {}
    for route in routes:
        for path in route.paths:
            description = _described_route(route, path)
            same = route.endpoint, path, repr(description["limits"])
            found.setdefault(same, description)["methods"].append(route.method)
    return sorted(found.values(), key=lambda each: (each["endpoint"], each["rule"], each["methods"]))


def _described_route(route: RouteRules, path: str) -> Description:
    """Return a description that names no HTTP method yet."""
    return {
        "endpoint": route.endpoint,
        "methods": [],
        "rule": path,
        "protected": route.protected,
        "limits": [each for rule in route.rules for each in _described_limits(rule)],
    }


def _described_limits(rule: Rule) -> Iterator[Description]:
    """Yield a description per limit; one for all that a function names, whose numbers are None."""
    limits, terms = rule.limits, _terms_of(rule)
    if limits is None:
        yield {"name": rule.shown, "limit": None, "quota": None, "window": None, "algorithm": None, **terms}
        return
    for item, limit in zip(items_of(rule.shown, limits), limits, strict=True):
        numbers = {"quota": limit.quota, "window": limit.window, "algorithm": limit.algorithm}
        yield {"name": item.name, "limit": limit.label, **numbers, **terms}


def _terms_of(rule: Rule) -> Description:
    """Return what is said about a rule beside its numbers."""
    installation, options = rule.installation, rule.options
    return {
        "kind": "shared" if options.is_shared else rule.place.kind.partition("-")[0],
        "identifiers": installation.identifiers_shown(options.identifiers),
        "anonymous": options.anonymous or installation.anonymous,
        "methods": None if options.methods is None else sorted(options.methods),
        "scope": _function_or_itself(options.scope),
        "cost": _function_or_itself(options.cost),
        "per_method": options.per_method,
        "shadow": rule.in_shadow,
        "dynamic": shown(rule.value) if is_dynamic(rule.value) else None,
        "exempt_when": _function_or_itself(options.exempt_when),
        "deduct_when": _function_or_itself(options.deduct_when),
        "store": store_shown(installation.store),
    }


def _function_or_itself(value: object) -> object:
    return shown(value) if callable(value) else value


def store_shown(store: Store) -> str:
    """Return where a store is, without credentials."""
    return str(getattr(store, "endpoint", "memory://"))


def policies_of(routes: Iterable[RouteRules]) -> tuple[Policy, ...]:
    """Return every policy once, in the order of the endpoints."""
    found: dict[tuple[object, ...], Policy] = {}
    for route in routes:
        for rule in route.rules:
            name = _name_of(rule)
            installation = rule.installation
            where = (id(installation.store), name) if name else (id(installation), *rule.place[:2])
            known = found.get(where, Policy(rule, name, ()))
            endpoints = dict.fromkeys((*known.endpoints, route.endpoint))
            found[where] = known._replace(endpoints=tuple(endpoints))
    return tuple(found.values())


def standing(policy: Policy, identifier: str) -> Iterator[Description]:
    """Yield how the identifier stands under each limit of a policy; nothing is charged.

    Raises
    ------
    StoreError
        The store cannot answer.
    """
    rule = policy.rule
    charge = _charge_of(rule) if policy.name else None
    terms = {"policy": policy.name, "endpoints": list(policy.endpoints), **_terms_of(rule)}
    if charge is None:
        yield {"name": rule.shown, **_UNMEASURED, **terms}
        return
    for found in _measured(charge, identifier):
        yield {**found, **terms}


def forget_counts(
    routes: Iterable[RouteRules], installation: Installation, endpoint: str | None, forget: Forget
) -> None:
    """Give a fresh start under all that one RateLimit counts on an app, or under what counts one endpoint.

    Of counts whose names only a request tells, those that this process has used lately.

    Raises
    ------
    StoreError
        The store cannot answer.
    """
    own = [each for each in policies_of(routes) if each.rule.installation is installation]
    if endpoint is not None:
        own = [each for each in own if each.rule.counted_endpoint == endpoint]
    installation.forget((each.name for each in own if each.name), endpoint, forget)


def _measured(charge: Charge, identifier: str) -> Iterator[Description]:
    """Yield the state of each limit now, and when it has room for what one request costs."""
    now = charge.limiter.peek(identifier, cost=0)
    next_one = charge.limiter.peek(identifier, cost=charge.cost if isinstance(charge.cost, int) else 1)
    for item, present, ahead in zip(charge.items(), now.details, next_one.details, strict=True):
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


def _charge_of(rule: Rule) -> Charge | None:
    """Return what it charges now, with a store whose failures are raised; None: only a request tells."""
    try:
        return rule.raising().charge_now()
    except Exception:  # what a function of the app raises when there is no request
        return None


def _name_of(rule: Rule) -> str | None:
    try:
        return rule.policy_name_now()
    except Exception:  # as above
        return None
