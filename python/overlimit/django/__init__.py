"""Rate limits for Django: the middleware, the decorator, and built-in identifiers."""

from __future__ import annotations

try:  # so that what is missing is named before anything else is imported
    import django as _django  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "django":
        raise
    raise ModuleNotFoundError(
        "overlimit.django needs Django 4.2 or later: pip install 'overlimit[django]' brings it",
        name=error.name,
    ) from None

from overlimit.django.decorator import exempt, rate_limit
from overlimit.django.errors import RateLimitExceeded
from overlimit.django.keys import by_get, by_post
from overlimit.django.middleware import RateLimitMiddleware
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

__all__ = [
    "HeaderNames",
    "RateLimitExceeded",
    "RateLimitMiddleware",
    "by_address",
    "by_cookie",
    "by_get",
    "by_header",
    "by_json",
    "by_path_parameter",
    "by_post",
    "by_user",
    "by_user_or_address",
    "exempt",
    "rate_limit",
]
