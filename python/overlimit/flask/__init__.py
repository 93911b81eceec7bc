"""Rate limits for Flask: the extension, the decorator, and built-in identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:  # so that what is missing is named before anything else is imported
    import blinker as _blinker  # noqa: F401 - of Flask only since 2.3
    import flask as _flask  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("blinker", "flask"):
        raise
    raise ModuleNotFoundError(
        "overlimit.flask needs Flask 2.3 or later, with blinker: pip install 'overlimit[flask]' brings them",
        name=error.name,
    ) from None

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
        """Say what to import instead, in an ImportError: ``from overlimit.flask import`` shows no other."""
        if name in OF_MODULE:
            raise ImportError(f"overlimit.flask has no {name}: {OF_MODULE[name]}", name=__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


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
    "rate_limit",
    "rate_limited",
]
