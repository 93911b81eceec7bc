"""Rate limits for Flask: the extension, the decorator, and built-in identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlimit._messages.optional import needed

with needed(
    "overlimit.flask needs Flask 2.3 or later, with blinker: pip install 'overlimit[flask]' brings them",
    "blinker",
    "flask",
):
    import blinker as _blinker  # noqa: F401 - of Flask only since 2.3
    import flask as _flask  # noqa: F401

from overlimit._addresses import group_address
from overlimit._messages.migration_hints import missing_of_adapter
from overlimit.flask.decorator import rate_limit
from overlimit.flask.errors import RateLimitExceeded, StoreFailed, rate_limited
from overlimit.flask.extension import RateLimit
from overlimit.flask.identifiers import (
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    by_user,
    by_user_or_address,
    get_address,
    get_identifiers,
)
from overlimit.flask.migration_hints import OF_MODULE
from overlimit.http.answering.fields import HeaderNames
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
    "rate_limit",
    "rate_limited",
]
