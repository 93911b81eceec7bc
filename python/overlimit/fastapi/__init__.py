"""Rate limits for FastAPI: the RateLimit with its decorators and dependencies, and built-in identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlimit._messages.optional import needed

with needed(
    "overlimit.fastapi needs FastAPI 0.100 or later: pip install 'overlimit[fastapi]' brings it",
    "fastapi",
):
    import fastapi as _fastapi  # noqa: F401

from overlimit._addresses import group_address
from overlimit._messages.migration_hints import missing_of_adapter
from overlimit.fastapi.errors import RateLimitExceeded, StoreFailed
from overlimit.fastapi.extension import RateLimit
from overlimit.fastapi.identifiers import get_address, get_identifiers
from overlimit.fastapi.migration_hints import OF_MODULE
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say what to write instead of a name of another library."""
        raise missing_of_adapter(__name__, name, OF_MODULE)


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
