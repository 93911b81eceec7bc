"""Rate limits for Quart: the RateLimit with its decorators, and built-in identifiers."""

from __future__ import annotations

from overlimit._messages.optional import needed

with needed("overlimit.quart needs Quart 0.20 or later: pip install 'overlimit[quart]' brings it", "quart"):
    import quart as _quart  # noqa: F401

from overlimit._addresses import group_address
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.identifying.builtin import (
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    by_user,
    by_user_or_address,
)
from overlimit.http.rules.applied_limits import ExemptionScope
from overlimit.quart.errors import RateLimitExceeded, StoreFailed
from overlimit.quart.extension import RateLimit
from overlimit.quart.identifiers import get_address, get_identifiers

__all__ = [
    "ExemptionScope",
    "HeaderNames",
    "RateLimit",
    "RateLimitExceeded",
    "StoreFailed",
    "by_address",
    "by_cookie",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_user",
    "by_user_or_address",
    "get_address",
    "get_identifiers",
    "group_address",
]
