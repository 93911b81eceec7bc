"""Sites of Django: bare, with limits by address in memory, and with django-ratelimit."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import path
from django_ratelimit.decorators import ratelimit

from measuring.turns import Sample, Turn
from overlimit.django import rate_limit

LIMITS = ["1000000/s", "12000000/m", "240000000/h"]
TOGETHER = "; ".join(LIMITS)
MIDDLEWARE = ["overlimit.django.RateLimitMiddleware"]
REQUESTS = 100

settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    OVERLIMIT={"DEFAULT_LIMITS": TOGETHER, "KEY": "ip"},
)
django.setup()


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


def django_ratelimit(view: Any) -> Any:
    for rate in LIMITS:
        view = ratelimit(key="ip", rate=rate)(view)
    return view


def limited(view: Any) -> Any:
    return rate_limit(TOGETHER, key="ip")(view)


SITES: dict[str, tuple[list[str], Any]] = {
    "bare Django": ([], view),
    "overlimit, middleware": (MIDDLEWARE, view),
    "overlimit, decorator": ([], limited(view)),
    "overlimit, both": (MIDDLEWARE, limited(view)),
    "django-ratelimit, three decorators": ([], django_ratelimit(view)),
}


def served(site: tuple[list[str], Any]) -> override_settings:
    middleware, decorated = site
    return override_settings(MIDDLEWARE=middleware, ROOT_URLCONF=(path("", decorated),))


def turn_of(site: tuple[list[str], Any], environ: dict[str, Any]) -> Turn:
    with served(site):
        return partial(take_turn, site, WSGIHandler(), environ)


def take_turn(site: tuple[list[str], Any], handler: WSGIHandler, environ: dict[str, Any]) -> Sample:
    """Return the median duration of a request, in microseconds."""
    durations = []
    with served(site):
        for _ in range(REQUESTS):
            request = dict(environ)
            began = time.perf_counter_ns()
            handler(request, lambda status, headers: None).close()
            durations.append((time.perf_counter_ns() - began) / 1e3)
    return Sample(statistics.median(durations), durations)


def turns() -> dict[str, Turn]:
    environ = {**RequestFactory().get("/").environ, "wsgi.multiprocess": False}
    return {name: turn_of(site, environ) for name, site in SITES.items()}
