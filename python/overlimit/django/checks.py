"""What ``manage.py check`` says of limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.module_loading import import_string

from overlimit.django.decorator import ViewLimit
from overlimit.django.middleware import RateLimitMiddleware
from overlimit.django.settings import NAME, problems
from overlimit.django.site import site
from overlimit.django.views import class_of, functions_called, name_of
from overlimit.http.patterns import METHODS
from overlimit.http.rules.applied_limits import AppliedLimits, applied_limits_of

TAG = "overlimit"

_OF_MIDDLEWARE = ("DEFAULT_LIMITS", "APPLICATION_LIMITS", "GLOBAL_LIMITS")


def check_settings(**_: object) -> list[CheckMessage]:
    """Report wrong settings, and limits of the site that nothing enforces."""
    given = getattr(settings, NAME, {})
    errors = [Error(problem, id="overlimit.E001") for problem in problems(given)]
    if errors or any(map(_is_ours, settings.MIDDLEWARE)):
        return errors
    hint = "Add 'overlimit.django.RateLimitMiddleware' to MIDDLEWARE."
    return [
        Warning(f"{NAME}[{key!r}] has no effect without the middleware.", hint=hint, id="overlimit.W001")
        for key in _OF_MIDDLEWARE
        if given.get(key)
    ]


def check_views(**_: object) -> list[CheckMessage]:
    """Report views whose limits cannot be used."""
    if not getattr(settings, "ROOT_URLCONF", None) or any(problems(getattr(settings, NAME, {}))):
        return []
    return [
        Error(problem, obj=name_of(view), id="overlimit.E002")
        for view in _views(get_resolver().url_patterns)
        for problem in _problems_of(view)
    ]


def _is_ours(path: str) -> bool:
    try:
        found = import_string(path)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, RateLimitMiddleware)


def _views(patterns: Any) -> Iterator[Any]:
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from _views(each.url_patterns)
        elif isinstance(each, URLPattern):
            yield each.callback


def _problems_of(view: Any) -> Iterator[str]:
    if isinstance(view, ViewLimit):
        yield "a limit is not a view: write @rate_limit('5/minute') above the view, not @rate_limit"
        return
    found = {
        (method, applied_limits_of(each)) for method in METHODS for each in functions_called(view, method)
    }
    yield from dict.fromkeys(
        problem for method, applied in found for problem in _problems_of_limits(view, method, applied)
    )
    drf = sys.modules.get("overlimit.django.drf")  # which no throttle is without
    if drf is not None:
        yield from drf.problems_of_throttles(class_of(view))


def _problems_of_limits(view: Any, method: str, applied: AppliedLimits) -> Iterator[str]:
    try:
        site().plan(name_of(view), method, applied, True)
    except (TypeError, ValueError) as error:
        yield str(error)
