"""What ``manage.py check`` says of limits."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.urls import URLPattern
from django.utils.module_loading import import_string

from overlimit._patterns import METHODS
from overlimit.django.decorator import ViewLimit
from overlimit.django.middleware import RateLimitMiddleware, caches_around, is_a
from overlimit.django.migration_hints import OF_SETTINGS
from overlimit.django.settings import NAME, problems
from overlimit.django.site import site
from overlimit.django.views import class_of, functions_called, limits_of, name_of, reached
from overlimit.http.identifying.builtin import unknown_parameters

TAG = "overlimit"

_OF_MIDDLEWARE = ("DEFAULT_LIMITS", "APPLICATION_LIMITS", "GLOBAL_LIMITS")


def check_settings(**_: object) -> list[CheckMessage]:
    """Report wrong settings, limits of the site that nothing enforces, and settings of django-ratelimit."""
    given = getattr(settings, NAME, {})
    found = [Error(problem, id="overlimit.E001") for problem in problems(given)]
    if not found and not any(is_a(path, RateLimitMiddleware) for path in settings.MIDDLEWARE):
        hint = "Add 'overlimit.django.RateLimitMiddleware' to MIDDLEWARE."
        found += [
            Warning(f"{NAME}[{key!r}] has no effect without the middleware.", hint=hint, id="overlimit.W001")
            for key in _OF_MIDDLEWARE
            if given.get(key)
        ]
    found += [
        Warning(
            f"{path} would keep the RateLimit fields of one client for all others, since RateLimitMiddleware "
            "comes after it; so the pages that it keeps have none.",
            hint="Write 'overlimit.django.RateLimitMiddleware' before it in MIDDLEWARE.",
            id="overlimit.W005",
        )
        for path in caches_around()
    ]
    found += [
        Error(
            f"{path} is limited, but a context processor answers no request: limit the views",
            id="overlimit.E002",
        )
        for path in _limited_context_processors()
    ]
    if "django_ratelimit" not in sys.modules:  # which may be in use besides
        theirs = {key: instead for key, instead in OF_SETTINGS.items() if hasattr(settings, key)}
        found += [
            Warning(f"{key} has no effect on {NAME}: {instead}.", id="overlimit.W002")
            for key, instead in theirs.items()
        ]
    return found


def _limited_context_processors() -> Iterator[str]:
    for engine in settings.TEMPLATES:
        for path in engine.get("OPTIONS", {}).get("context_processors", ()):
            try:
                found = import_string(path)
            except ImportError:
                continue
            if limits_of(found):
                yield path


def check_views(**_: object) -> list[CheckMessage]:
    """Report views whose limits cannot be used, or do not say what they seem to."""
    if not getattr(settings, "ROOT_URLCONF", None) or any(problems(getattr(settings, NAME, {}))):
        return []
    views = [(each.pattern, _place(each.pattern), each.parameters) for each in reached()]
    parameters: dict[str, set[str]] = defaultdict(set)
    for _, place, names in views:
        parameters[place].update(names)
    found = [
        (place, number, told)
        for pattern, place, _ in views
        for number, told in _problems_of(pattern.callback, parameters[place])
    ]
    return [
        (Error if number.startswith("E") else Warning)(told, obj=place, id=f"overlimit.{number}")
        for place, number, told in dict.fromkeys(found)
    ]


def _place(pattern: URLPattern) -> str:
    view = pattern.callback
    return view.given or repr(pattern) if isinstance(view, ViewLimit) else name_of(view)


def _problems_of(view: Any, parameters: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the numbers of the checks that a view fails, and what is wrong."""
    if isinstance(view, ViewLimit):
        yield "E002", "a limit is not a view: write @rate_limit('5/minute') above the view, not @rate_limit"
        return
    called = ((method, each) for method in METHODS for each in functions_called(view, method))
    for method, applied in dict.fromkeys((method, limits_of(each)) for method, each in called):
        try:
            site().plan(name_of(view), method, applied, name_of(view))
        except (TypeError, ValueError) as error:
            yield "E002", str(error)
        for each in applied:
            yield from (("W003", told) for told in unknown_parameters(each.options.identifiers, parameters))
    drf = sys.modules.get("overlimit.django.drf")  # which no throttle is without
    if drf is not None:
        yield from drf.problems_of_throttles(class_of(view), parameters)
