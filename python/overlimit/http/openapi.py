"""What the OpenAPI description of an app says of refusals: the answer 429 and its header fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        "instance": {"type": "string", "format": "uri"},
        "violated-policies": {"type": "array", "items": {"type": "string"}},
    },
}


def with_refusals(responses: Mapping[Any, Any], rules: Iterable[Rule]) -> dict[Any, Any]:
    """Return the responses of an operation, by status, with the answer 429 if rules can refuse it."""
    refusing = [rule for rule in rules if rule.can_refuse]
    if not refusing or {_STATUS, str(_STATUS), "4XX"} & responses.keys():
        return dict(responses)
    json = {media_type: {"schema": _PROBLEM} for media_type in MEDIA_TYPES if "json" in media_type}
    answer = {"description": "Too Many Requests", "headers": _headers(refusing), "content": json}
    return {**responses, _STATUS: answer}


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
