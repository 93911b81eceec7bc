"""The limits of an app in plain words and numbers, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from overlimit.flask.binding import Binding
from overlimit.flask.identifiers import get_identifiers
from overlimit.flask.inventory import Entry, Held
from overlimit.http.functions import shown
from overlimit.http.identities import Identify
from overlimit.http.options import is_dynamic
from overlimit.http.rules import items_of
from overlimit.stores import Store

__all__ = ["Description", "described_entries", "identifiers_shown", "seconds", "store_shown", "terms_of"]

Description = dict[str, Any]
"""What JSON can say: of a route, or of a limit."""


def described_entries(entries: Iterable[Entry]) -> list[Description]:
    """Return one description per endpoint, URL rule and limits, with the HTTP methods they hold for."""
    found: dict[tuple[str, str, str], Description] = {}
    for entry in entries:
        for rule in entry.rules:
            described = _described(entry, rule)
            same = entry.route.endpoint, rule, repr(described["limits"])
            found.setdefault(same, described)["methods"].append(entry.route.method)
    return sorted(found.values(), key=lambda each: (each["endpoint"], each["rule"], each["methods"]))


def terms_of(held: Held) -> Description:
    """Return what is said about a limit beside its numbers."""
    placed, options = held.placed, held.placed.options
    return {
        "kind": _kind_of(held),
        "identifiers": identifiers_shown(held.binding, options.identifiers),
        "anonymous": options.anonymous or placed.maker.anonymous,
        "methods": None if options.methods is None else sorted(options.methods),
        "scope": _function_or_itself(options.scope),
        "cost": _function_or_itself(options.cost),
        "per_method": options.per_method,
        "shadow": held.in_shadow,
        "dynamic": shown(placed.value) if is_dynamic(placed.value) else None,
        "exempt_when": _function_or_itself(options.exempt_when),
        "deduct_when": _function_or_itself(options.deduct_when),
        "store": store_shown(held.binding.store),
    }


def _described(entry: Entry, rule: str) -> Description:
    """Return a description that names no HTTP method yet."""
    return {
        "endpoint": entry.route.endpoint,
        "methods": [],
        "rule": rule,
        "protected": entry.protected,
        "limits": [each for held in entry.held for each in _described_limits(held)],
    }


def _described_limits(held: Held) -> Iterator[Description]:
    """Yield a description per limit; one for all that a function names, whose numbers are None."""
    placed, terms = held.placed, terms_of(held)
    limits = placed.limits
    if limits is None:
        yield {"name": placed.shown, "limit": None, "quota": None, "window": None, "algorithm": None, **terms}
        return
    for item, limit in zip(items_of(placed.shown, limits), limits, strict=True):
        numbers = {"quota": limit.quota, "window": limit.window, "algorithm": limit.algorithm}
        yield {"name": item.name, "limit": limit.label, **numbers, **terms}


def _kind_of(held: Held) -> str:
    """Return what puts a limit there: route, blueprint, default, application, shared or meta."""
    return "shared" if held.placed.options.is_shared else held.placed.origin.kind.partition("-")[0]


def _function_or_itself(value: object) -> object:
    return shown(value) if callable(value) else value


def identifiers_shown(binding: Binding, own: Identify | None = None) -> str:
    """Return the name of what says who is counted: a limit's own function, or else that of its RateLimit."""
    return shown(own or binding.settings.options.get("identifiers") or get_identifiers)


def seconds(number: float) -> str:
    """Return a number of seconds as a text."""
    return f"{number:.3f}".rstrip("0").rstrip(".") + " s"


def store_shown(store: Store) -> str:
    """Return where a store is, without credentials."""
    return str(getattr(store, "endpoint", "memory://"))
