"""What other rate limiters call otherwise, and what to write instead: for the messages of errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["OF_DECISION", "OF_LIMIT", "missing", "missing_of_decision"]

_RESET = "use decision.time + decision.retry_after of a refusal, else decision.time + decision.reset_after"

OF_DECISION: Mapping[str, str] = MappingProxyType(
    {
        "amount": "use decision.limit.quota",
        "breached": "use not decision",
        "extension": "use the RateLimit itself",
        "key": "use decision.identifier and decision.limit",
        "limiter": "use an overlimit.Limiter of your own, with the same store=",
        "request_args": "use decision.identifier",
        "reset_at": _RESET,
        "reset_time": _RESET,
        "shared": "use .policy of the rows of decision.details",
        "window": "use decision.retry_after and decision.remaining",
    }
)
"""Attributes that a ``Decision`` does not have."""

OF_LIMIT: Mapping[str, str] = MappingProxyType(
    {
        "GRANULARITY": "use limit.per, in seconds",
        "amount": "use limit.quota",
        "check_granularity_string": "write overlimit.parse",
        "error_message": "use error.description",
        "get_expiry": "use limit.per or limit.window, in seconds",
        "granularity": "use limit.per, in seconds",
        "key_for": "use decision.identifier; the keys in the store are not to be made by hand",
        "limit_provider": "use limit.label",
        "multiples": "use limit.per, in seconds",
        "namespace": "use limit.name",
    }
)
"""Attributes that a limit does not have."""


def missing(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Return the error of an attribute that is not there, with what to use instead of another library's."""
    hint = f": {hints[name]}" if name in hints else ""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=owner)


def missing_of_decision(decision: object, name: str) -> AttributeError:
    """Return the error of an attribute that a decision does not have; the core calls this."""
    return missing(decision, name, OF_DECISION)
