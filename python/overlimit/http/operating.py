"""Whom a command asks about, which policies count them, and what it cannot know: for any command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from overlimit._addresses import UNKNOWN, grouped, is_address
from overlimit._forwarded import checked_header_name
from overlimit.http import reports
from overlimit.http.callables import function_name
from overlimit.http.identifying.builtin import by_address, by_user
from overlimit.http.identifying.identifiers import ANONYMOUS
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.precedence import RulesOfRoute

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {"header": "X-API-Key=free-1", "cookie": "session=7", "json": "account=ann"}
)
"""By which kinds somebody is named by a name and a value, with an example of each."""

Counted = list[tuple[reports.PolicyUse, str]]
"""Policies that may count somebody, each with the identifier by which it does."""


def asked(kind: str, value: str) -> reports.Asked:
    """Return whom a command asks about; raise ValueError for what names nobody."""
    if not value:
        raise ValueError(f"an identifier must not be empty: requests without one are counted as {ANONYMOUS}")
    if kind == "address" and value != UNKNOWN and not is_address(value):
        raise ValueError(f"--address must be an IP address, not {value!r}")
    if kind not in EXAMPLES:
        return reports.Asked(value, kind)
    name, _, value = value.partition("=")
    if not (name and value):
        raise ValueError(f"--{kind} must be NAME=VALUE, such as --{kind} {EXAMPLES[kind]}")
    return reports.Asked(value, kind, checked_header_name(name) if kind == "header" else name)


def policies_that_count(routes: Iterable[RulesOfRoute], whom: reports.Asked) -> Counted:
    """Return the policies that may count somebody; raise RuntimeError if there are none."""
    policies = reports.policies_of(routes)
    counted = [(policy, each) for policy in policies for each in whom.identifiers(policy.rule)]
    if not counted:
        by = dict.fromkeys(function_name(policy.rule.identify) for policy in policies)
        raise RuntimeError(f"no limit of this app counts {whom}; those it has count by {', '.join(by)}")
    return counted


def reset(counted: Counted) -> dict[str, list[str]]:
    """Give a fresh start where the names of counts are known, and return who got it, and where or not."""
    for policy, identifier in counted:
        if policy.name is not None:
            policy.rule.reset(identifier)
    return {
        "identifiers": list(dict.fromkeys(identifier for _, identifier in counted)),
        "reset": list(dict.fromkeys(str(policy) for policy, _ in counted if policy.name is not None)),
        "not_reset": list(dict.fromkeys(str(policy) for policy, _ in counted if policy.name is None)),
    }


def check_is_created(rate_limits: Iterable[AppRateLimit]) -> None:
    """Raise RuntimeError for shared memory, a file or a table that is missing: no command makes it."""
    for missing in (each.store._missing for each in rate_limits):
        if missing is not None:
            raise RuntimeError(f"nothing is counted yet: there is no {missing}; the first request makes it")


def hints(rate_limits: Iterable[AppRateLimit], whom: reports.Asked) -> Iterable[str]:
    """Return why a command may not do what its caller expects, each reason once."""
    return dict.fromkeys(hint for each in rate_limits for hint in _hints(each, whom))


def _hints(rate_limit: AppRateLimit, whom: reports.Asked) -> Iterator[str]:
    yield from rate_limit.store._hints()
    if rate_limit.store._longest_lease > 0:
        yield reports.HELD_ELSEWHERE[0].lower() + reports.HELD_ELSEWHERE[1:].rstrip(".")
    if whom.kind != "identifier" or rate_limit.settings.options.get("identifiers") is not None:
        return
    kind, _, address = whom.value.partition(":")
    if whom.value != ANONYMOUS and (kind not in ("ip", "user") or not address):
        yield f"{_with_kind(whom.value, rate_limit)}addresses are counted as ip:ADDRESS and users as user:ID"
    elif kind == "ip" and (counted := grouped(address, rate_limit.addresses.ipv6_prefix)) != address:
        yield f"this address is counted as ip:{counted}"


def _with_kind(value: str, rate_limit: AppRateLimit) -> str:
    """Say how to write an address or the id of a user as an identifier; nothing of other texts."""
    if is_address(value):
        return f"write {by_address.with_addresses(rate_limit.addresses).identifier(value)}, as "
    return "" if ":" in value else f"write {by_user.identifier(value)} for a user, as "
