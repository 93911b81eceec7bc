"""The options that type checkers know are those that are described."""

from __future__ import annotations

import pytest

from overlimit.django.decorator import ViewKeywords
from overlimit.django.options import VIEW_OPTIONS
from overlimit.fastapi.extension import Keywords
from overlimit.fastapi.route_limits import BEFORE_VALIDATION, OPTIONS, RouteKeywords
from overlimit.http.options.limit_options import LIMIT_OPTIONS, LimitKeywords
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, RateLimitOptions


@pytest.mark.parametrize(
    ("typed", "described"),
    [
        (LimitKeywords, LIMIT_OPTIONS),
        (RouteKeywords, OPTIONS),
        (ViewKeywords, VIEW_OPTIONS),
        (RateLimitOptions, RATE_LIMIT_OPTIONS),
        (Keywords, {**RATE_LIMIT_OPTIONS, BEFORE_VALIDATION.name: BEFORE_VALIDATION, "app": None}),
    ],
    ids=["Flask", "FastAPI", "Django", "RateLimit", "RateLimit of FastAPI"],
)
def test_they_are_the_same(typed, described):
    assert typed.__annotations__.keys() == described.keys()
