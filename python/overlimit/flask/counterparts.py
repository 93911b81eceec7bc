"""What Flask-Limiter 4.1 calls otherwise, and what to write instead: for the messages of errors.

docs/migrating.md has the same as tables.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

__all__ = ["ARGUMENTS", "OF_ERROR", "OF_LIMITER", "PointsToCounterparts", "no_such_option"]

ARGUMENTS = MappingProxyType(
    {
        "auto_check": "leave it out: every request is decided by itself",
        "fail_on_first_breach": "leave it out: all limits are decided in one step",
        "header_name_mapping": "write header_names=HeaderNames(limit=..., remaining=..., reset=...)",
        "headers_enabled": "write headers='both' for True, headers=None for False",
        "in_memory_fallback_enabled": "write on_error='local'",
        "request_identifier": "set the key RATELIMIT_REQUEST_IDENTIFIER",
        "retry_after": "leave it out: Retry-After is always in seconds",
        "storage_options": "write store=RedisStore(url, ...), or set the key RATELIMIT_STORAGE_OPTIONS",
        "storage_uri": "write store='redis://host:6379/0', or another URL or store",
        "strategy": "write algorithm='fixed_window', 'sliding_log' or 'sliding_window_counter'",
        "swallow_errors": "write on_error='allow' for True, on_error='raise' for False",
    }
)
"""Arguments of its ``Limiter``."""

OF_LIMITER = MappingProxyType(
    {
        "app": "use flask.current_app",
        "context": "use current_decision",
        "current_limit": (
            "use current_decision; it has .limit, .remaining, .identifier and .retry_after, "
            "and is false when it refused"
        ),
        "current_limits": "use current_decision.details",
        "identify_request": "use flask.request.endpoint",
        "initialized": "leave it out: a RateLimit works once init_app(app) was called",
        "limit_manager": "write flask limits list --json",
        "limiter": "use an overlimit.Limiter of your own, with the same store=",
        "logger": "use logging.getLogger('overlimit')",
        "storage": "use an overlimit.Limiter of your own, with the same store=",
    }
)
"""Attributes of its ``Limiter``."""

OF_ERROR = MappingProxyType(
    {
        "breached": "use not error.decision",
        "key": "use error.decision.identifier and error.decision.limit",
        "limit": "use error.decision.limit, with .quota, .window and .label",
        "remaining": "use error.decision.remaining",
        "request_args": "use error.decision.identifier",
        "reset_at": "use error.decision.time + error.decision.retry_after",
        "window": "use error.decision.retry_after and error.decision.remaining",
    }
)
"""Attributes of what its error handlers are given, and of the limit that this names."""


class PointsToCounterparts:
    """Says of an attribute that Flask-Limiter's class has what this one has instead."""

    _counterparts: ClassVar[Mapping[str, str]]

    # A type checker shall go on telling of attributes that are not there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError."""
            instead = type(self)._counterparts.get(name)
            hint = "" if instead is None else f": {instead}"
            message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name, obj=self)


def no_such_option(name: str, known: Collection[str]) -> TypeError:
    """Return the error of an option that a RateLimit does not have."""
    if name in ARGUMENTS:
        return TypeError(f"RateLimit has no option {name!r}: {ARGUMENTS[name]}")
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(known)}"
    return TypeError(f"RateLimit has no option {name!r}: {hint}")
