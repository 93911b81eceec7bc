"""Rate limits for Django: the middleware, the decorator, and built-in identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlimit._messages.optional import needed

with needed(
    "overlimit.django needs Django 4.2 or later: pip install 'overlimit[django]' brings it",
    "django",
):
    import django as _django  # noqa: F401

from overlimit._addresses import group_address
from overlimit._messages.migration_hints import missing_of_adapter
from overlimit.django.decorator import exempt, rate_limit
from overlimit.django.errors import RateLimitExceeded
from overlimit.django.keys import by_get, by_post
from overlimit.django.middleware import RateLimitMiddleware, get_limits
from overlimit.django.migration_hints import OF_MODULE
from overlimit.django.request import current_decision
from overlimit.django.settling import arefund, asettle, refund, settle
from overlimit.django.site import get_address, get_store
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say what to write instead of a name of another library."""
        raise missing_of_adapter(__name__, name, OF_MODULE)


__all__ = [
    "HeaderNames",
    "RateLimitExceeded",
    "RateLimitMiddleware",
    "arefund",
    "asettle",
    "by_address",
    "by_cookie",
    "by_get",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_post",
    "by_user",
    "by_user_or_address",
    "current_decision",
    "exempt",
    "get_address",
    "get_limits",
    "get_store",
    "group_address",
    "rate_limit",
    "refund",
    "settle",
]
