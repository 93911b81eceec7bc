"""The limits of an app as data and as text: where they hold, what an identifier has left, and resets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from overlimit.http.callables import function_name
from overlimit.http.identifying.builtin import builtins_in, by_address, by_cookie, by_header, by_json, by_user
from overlimit.http.identifying.identifiers import ANONYMOUS, Identifiers, may_return
from overlimit.http.leases import bounds_of, options_of
from overlimit.http.options.limit_options import is_dynamic
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.precedence import Route, RulesOfRoute
from overlimit.http.rules.rule import ResolvedRule, Rule, items_of
from overlimit.stores import Store

T = TypeVar("T")

Description = dict[str, Any]
"""A route or a limit, as JSON has it."""

_LIST_HEAD = (
    *("ENDPOINT", "METHODS", "RULE"),
    *("POLICY", "NAME", "LIMIT", "QUOTA", "WINDOW", "ALGORITHM", "KIND", "OPTIONS"),
)
_CHECK_HEAD = ("POLICY", "NAME", "LIMIT", "REMAINING", "RETRY AFTER", "RESET AFTER", "STATUS", "OPTIONS")
HELD_ELSEWHERE = (
    "Units leased by running processes count as used here: only those processes know how many are unspent, "
    'in stats()["held"] and in their metrics.'
)
_UNKNOWN = "known only during a request"
_UNMEASURED = dict.fromkeys(("limit", "quota", "remaining", "retry_after", "reset_after", "status", "locked"))


class Asked(NamedTuple):
    """Whom a command asks about: an identifier as it is counted, or a value that a request has."""

    value: str
    kind: str = "identifier"
    """Or ``"address"``, ``"user"``, ``"header"``, ``"cookie"`` or ``"json"``."""
    name: str = ""
    """Of the header, the cookie or the member of a JSON object."""

    def __str__(self) -> str:
        """Say who it is, without a value that may be secret."""
        return f"the {self.kind} {self.name or self.value}"

    def identifiers(self, rule: Rule) -> tuple[str, ...]:
        """Return what a rule counts this as; nothing if it does not count such identifiers."""
        if self.kind in _NAMED:
            beginnings = _NAMED[self.kind](self.name).beginnings
            alike = (each for each in builtins_in(rule.identify) if each.beginnings == beginnings)
            return tuple(dict.fromkeys(filter(None, (each.identifier(self.value) for each in alike))))
        known = self._unnamed(rule)
        return (known,) if known == ANONYMOUS or may_return(rule.identify, known) else ()

    def _unnamed(self, rule: Rule) -> str:
        if self.kind == "address":
            return by_address.with_addresses(rule.rate_limit.addresses).identifier(self.value)
        return by_user.identifier(self.value) if self.kind == "user" else self.value


_NAMED = {"header": by_header, "cookie": by_cookie, "json": by_json}


class PolicyUse(NamedTuple):
    """A policy, and endpoints it may hold for; ``name`` is None if only a request tells where it counts."""

    rule: Rule
    name: str | None
    endpoints: tuple[str, ...]

    def __str__(self) -> str:
        """Return the name of its counts, or else its name in header fields."""
        return self.name or self.rule.field_name


def described(routes: Iterable[RulesOfRoute]) -> list[Description]:
    """Return one description per endpoint, path and limits, with the HTTP methods they hold for."""
    found: dict[tuple[str, str, str], Description] = {}
    for route, rules in routes:
        for path in route.paths:
            description = _described_route(route, path, rules)
            same = route.endpoint, path, repr(description["limits"])
            found.setdefault(same, description)["methods"].append(route.method)
    return sorted(found.values(), key=lambda each: (each["endpoint"], each["rule"], each["methods"]))


def _described_route(route: Route, path: str, rules: Collection[Rule]) -> Description:
    """Return a description that names no HTTP method yet."""
    return {
        "endpoint": route.endpoint,
        "methods": [],
        "rule": path,
        "protected": any(rule.can_refuse for rule in rules),
        "limits": [each for rule in rules for each in _described_limits(rule, rules)],
    }


def _described_limits(rule: Rule, together: Collection[Rule]) -> Iterator[Description]:
    """Yield a description per limit; a function's limits have a single one, whose numbers are None."""
    name, limits = rule.field_name, rule.limits
    terms = {**_terms_of(rule), "bounds": bounds_of(rule, together)}
    if limits is None:
        yield {"name": name, "limit": None, "quota": None, "window": None, "algorithm": None, **terms}
        return
    for item, limit in zip(items_of(name, limits), limits, strict=True):
        numbers = {"quota": limit.quota, "window": limit.window, "algorithm": limit.algorithm}
        yield {"name": item.name, "limit": limit.label, **numbers, **terms}


def _terms_of(rule: Rule) -> Description:
    rate_limit, options, said = rule.rate_limit, rule.options, rule.options.said
    return {
        "policy": rule.policy_name,
        "kind": "shared" if options.is_shared else rule.counted_as.kind,
        "identifiers": function_name(rule.identify),
        "anonymous": said["anonymous"] or rate_limit.anonymous,
        "methods": None if options.methods is None else sorted(options.methods),
        "scope": _function_or_itself(said["scope"]),
        "cost": _function_or_itself(options.units),
        "per_method": said["per_method"],
        "shadow": rule.in_shadow,
        "dynamic": function_name(rule.value) if is_dynamic(rule.value) else None,
        "exempt_when": _function_or_itself(said["exempt_when"]),
        "deduct_when": _function_or_itself(said["deduct_when"]),
        "penalty": None if rule.penalty is None else list(rule.penalty.levels),
        "store": _address_of(rate_limit.store),
        "store_options": options_of(rate_limit.store),
    }


def _function_or_itself(value: object) -> object:
    return function_name(value) if callable(value) else value


def _address_of(store: Store) -> str:
    """Return where a store is, without credentials."""
    return str(getattr(store, "endpoint", "memory://"))


def policies_of(routes: Iterable[RulesOfRoute]) -> tuple[PolicyUse, ...]:
    """Return every policy once, in the order of the endpoints."""
    found: dict[tuple[object, ...], PolicyUse] = {}
    for route, rules in routes:
        for rule in rules:
            name = _unless_request_is_needed(rule.policy_name_now)
            rate_limit = rule.rate_limit
            where = (id(rate_limit.store), name) if name else (id(rate_limit), *rule.counted_as.slots)
            known = found.get(where, PolicyUse(rule, name, ()))
            endpoints = dict.fromkeys((*known.endpoints, route.endpoint))
            found[where] = known._replace(endpoints=tuple(endpoints))
    return tuple(found.values())


def status_of(policy: PolicyUse, identifier: str) -> Iterator[Description]:
    """Yield what is left under each limit of a policy, charging nothing; raise StoreError without answer."""
    rule = policy.rule
    resolved = _unless_request_is_needed(rule.raising().resolve_now) if policy.name else None
    where = {"policy": policy.name, "endpoints": list(policy.endpoints), "identifier": identifier}
    terms = {**_terms_of(rule), **where}
    if resolved is None:
        yield {"name": rule.field_name, **_UNMEASURED, **terms}
        return
    for found in _measured(resolved, identifier):
        yield {**found, **terms}


def reset_counts(
    routes: Iterable[RulesOfRoute],
    rate_limit: AppRateLimit,
    endpoint: str | None,
    identifiers: Identifiers | None,
) -> list[str]:
    """Reset identifiers (None: all) where one RateLimit counts on an app, or counts only one endpoint.

    Where the name of a count is known only during a request, the counts are reset that this process has
    used lately; returned are the limits of which it has used none, though other processes may have. Raises
    StoreError if the store cannot answer.
    """
    own = [each for each in policies_of(routes) if each.rule.rate_limit is rate_limit]
    if endpoint is not None:
        own = [each for each in own if each.rule.counted_endpoint == endpoint]
    rate_limit.reset((each.name for each in own if each.name), endpoint, identifiers)
    if not rate_limit.store.is_shared:
        return []
    return [str(each) for each in own if each.name is None and not each.rule.was_used_lately]


def _measured(resolved: ResolvedRule, identifier: str) -> Iterator[Description]:
    """Yield the state of each limit now, and when it admits the cost of one request."""
    now = resolved.limiter.peek(identifier, cost=0)
    next_one = resolved.limiter.peek(identifier, cost=resolved.cost if isinstance(resolved.cost, int) else 1)
    for item, present, ahead in zip(resolved.items(), now.details, next_one.details, strict=True):
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


def _unless_request_is_needed(ask: Callable[[], T]) -> T | None:
    """Return what is known now; None if a function of the app raises anything, as there is no request."""
    try:
        return ask()
    except Exception:
        return None


def limits_list(
    rate_limits: Collection[AppRateLimit], routes: Iterable[RulesOfRoute], *, as_json: bool
) -> str:
    """Return all limits of an app and the routes that nothing protects, as a table or as JSON."""
    entries = described(routes)
    return json.dumps(entries, indent=2) if as_json else "\n".join(limits_table(rate_limits, entries))


def limits_table(rate_limits: Collection[AppRateLimit], entries: list[Description]) -> Iterator[str]:
    """Yield the stores, a table of all limits, and the routes that no limit protects."""
    usual = {function_name(each.identify) for each in rate_limits}
    stores = {_address_of(each.store) for each in rate_limits}
    for number, each in enumerate(rate_limits, 1):
        of = f" of RateLimit {number}" if len(rate_limits) > 1 else ""
        yield f"Store{of}: {_described_store(each)}"
    leasing = any(each.store._longest_lease > 0 for each in rate_limits)
    if leasing:
        yield HELD_ELSEWHERE
    rows = [row for entry in entries for row in _rows(entry, usual, stores, leasing=leasing)]
    if rows:
        yield ""
        yield from _aligned([_LIST_HEAD, *rows])
    bare = [_where(entry) for entry in entries if not entry["protected"]]
    yield ""
    yield "Unprotected (no limit can refuse a request):" if bare else "Every route is protected."
    yield from (f"  {line}" for line in _aligned(bare))


def _described_store(rate_limit: AppRateLimit) -> str:
    prefix = f", key prefix {rate_limit.prefix}" if rate_limit.prefix else ""
    shadow = ", in shadow: refuses nothing" if rate_limit.shadow else ""
    disabled = "" if rate_limit.enabled else ", disabled"
    who = f", identifiers {function_name(rate_limit.identify)}"
    stale = rate_limit.store._longest_stale
    notices = f", changes by other processes are noticed within {_seconds(stale)}" if stale else ""
    given = "".join(f", {name} {_shown(value)}" for name, value in options_of(rate_limit.store).items())
    return f"{_address_of(rate_limit.store)}{prefix}{who}{given}{notices}{shadow}{disabled}"


def _rows(
    entry: Description, usual: Collection[str], stores: Collection[str], *, leasing: bool
) -> Iterator[tuple[str, ...]]:
    """Yield a row per limit, which names its identifiers and store if they are not the only RateLimit's."""
    where = _where(entry)
    for limit in entry["limits"]:
        who = limit["identifiers"]
        told = [] if [who] == [*usual] else [f"identifiers {who}"]
        told += [] if len(stores) == 1 else [f"store {limit['store']}"]
        options = "; ".join((*told, *_options(limit), *_leases(limit, leasing)))
        policy = limit["policy"] or "-"
        yield *where, policy, limit["name"], *_numbers(limit), limit["kind"], options
        where = "", "", ""


def _numbers(limit: Description) -> tuple[str, str, str, str]:
    if limit["limit"] is None:
        return "(dynamic)", "-", "-", "-"
    return limit["limit"], str(limit["quota"]), _seconds(limit["window"]), limit["algorithm"]


def _options(limit: Description) -> Iterator[str]:
    if limit["dynamic"]:
        yield f"limit is {limit['dynamic']}"
    if limit["scope"] is not None:
        yield f"scope {limit['scope']}"
    if limit["cost"] != 1:
        yield f"cost {limit['cost']}"
    if limit["methods"] is not None:
        yield f"methods {','.join(limit['methods'])}"
    if limit["per_method"]:
        yield "per method"
    if limit["shadow"]:
        yield "shadow"
    if limit["exempt_when"]:
        yield f"exempt when {limit['exempt_when']}"
    if limit["anonymous"] == "exempt":
        yield "exempt when anonymous"
    if limit["deduct_when"]:
        yield f"deduct when {limit['deduct_when']}"
    if limit["penalty"]:
        yield f"locks for {', '.join(map(_seconds, limit['penalty']))}"


def _leases(limit: Description, leasing: bool) -> Iterator[str]:
    """Yield for how long units are leased or why they are not, in an app where some are."""
    bounds = limit["bounds"]
    if leasing and bounds is not None:
        reason, longest = bounds["reason"], bounds["lease"]
        yield f"not leased: {reason}" if reason else f"leased for up to {_seconds(longest)}"


def _where(entry: Description) -> tuple[str, str, str]:
    return entry["endpoint"], ",".join(entry["methods"]), entry["rule"]


def status_table(identifier: str, found: list[Description]) -> Iterator[str]:
    """Yield a table of what an identifier has left under each limit."""
    yield f"Limits of {identifier}:"
    rows = [_status_row(each) for each in found if each["identifier"] == identifier]
    yield from _aligned([_CHECK_HEAD, *rows])


def _status_row(found: Description) -> tuple[str, ...]:
    options = "; ".join(_options(found))
    if found["limit"] is None:
        return found["policy"] or "-", found["name"], "-", "-", "-", "-", _UNKNOWN, options
    retry = "never" if found["retry_after"] is None else _seconds(found["retry_after"])
    left = f"{found['remaining']} of {found['quota']}"
    reset = _seconds(found["reset_after"])
    return found["policy"], found["name"], found["limit"], left, retry, reset, found["status"], options


def reset_table(identifiers: Sequence[str], done: list[str]) -> Iterator[str]:
    """Yield the names of the policies that were reset."""
    policies = "1 policy" if len(done) == 1 else f"{len(done)} policies"
    yield f"{', '.join(identifiers)} has a fresh start under {policies}:"
    yield from (f"  {name}" for name in done)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line per row, with columns as wide as their longest cells; all rows have the same length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _shown(option: object) -> str:
    return _seconds(option) if isinstance(option, int | float) else str(option)


def _seconds(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".") + " s"
