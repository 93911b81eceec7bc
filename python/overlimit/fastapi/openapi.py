"""What the OpenAPI of an app says of refusals: the answer 429 and its header fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from overlimit.http.answering.fields import POLICY, RATE
from overlimit.http.answering.refusals import MEDIA_TYPES
from overlimit.http.rules.rule import Rule

_STATUS = 429
_PROBLEM = {
    "title": "Quota Exceeded",
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "violated-policies": {"type": "array", "items": {"type": "string"}},
    },
}


def describe_refusals(route: Any, rules: Iterable[Rule]) -> None:
    """Add the answer 429 to the responses of a route that can be refused, unless it has one."""
    refusing = [rule for rule in rules if rule.can_refuse]
    known = getattr(route, "responses", None)  # which only routes of FastAPI have
    if not refusing or known is None or {_STATUS, str(_STATUS), "4XX"} & known.keys():
        return
    json = {media_type: {"schema": _PROBLEM} for media_type in MEDIA_TYPES if "json" in media_type}
    response = {"description": "Too Many Requests", "headers": _headers(refusing), "content": json}
    route.responses = {**known, _STATUS: response}


def _headers(rules: Iterable[Rule]) -> dict[str, Any]:
    """Return the header fields that the RateLimits of these rules send."""
    found: dict[str, Any] = {}
    for rate_limit in dict.fromkeys(rule.rate_limit for rule in rules):
        names = rate_limit.header_names
        found[names.retry_after] = _header("integer", "Seconds after which the same request passes.")
        if rate_limit.in_fields:
            found[POLICY] = _header("string", "The limits that hold here, by their names.")
            found[RATE] = _header("string", "What is left of each of them, and until when.")
        if rate_limit.legacy_names is not None:
            found[names.limit] = _header("integer", "The quota of the limit that binds.")
            found[names.remaining] = _header("integer", "What is left of it.")
            found[names.reset] = _header("integer", "The second of the Unix epoch in which that changes.")
    return found


def _header(kind: str, text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": kind}}
