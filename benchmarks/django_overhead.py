"""What limits cost a request to Django, in one run: python benchmarks/django_overhead.py [--rounds N].

Three limits by address, in memory, through the WSGI handler without other middleware. The sites take turns;
each is compared with bare Django in the same round, and the medians over the rounds count. Needs the
dependency group ``bench``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import path
from django_ratelimit.decorators import ratelimit

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
    "django-ratelimit": ([], django_ratelimit(view)),
}


def served(site: tuple[list[str], Any]) -> override_settings:
    middleware, decorated = site
    return override_settings(MIDDLEWARE=middleware, ROOT_URLCONF=(path("", decorated),))


def handler_of(site: tuple[list[str], Any]) -> WSGIHandler:
    with served(site):
        return WSGIHandler()


def microseconds(handler: WSGIHandler, environ: dict[str, Any]) -> float:
    """Return the median duration of a request."""
    durations = []
    for _ in range(REQUESTS):
        request = dict(environ)
        began = time.perf_counter_ns()
        handler(request, lambda status, headers: None).close()
        durations.append(time.perf_counter_ns() - began)
    return statistics.median(durations) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description="What limits cost a request to Django.")
    parser.add_argument("--rounds", type=int, default=40, help="default: %(default)s")
    rounds = parser.parse_args().rounds
    handlers = {name: handler_of(site) for name, site in SITES.items()}
    environ = {**RequestFactory().get("/").environ, "wsgi.multiprocess": False}
    taken: dict[str, list[float]] = {name: [] for name in SITES}
    for _ in range(rounds + 1):
        for name, handler in handlers.items():
            with served(SITES[name]):
                taken[name].append(microseconds(handler, environ))
    base = taken["bare Django"][1:]
    for name, times in taken.items():
        pairs = list(zip(times[1:], base, strict=True))
        over = statistics.median(own - bare for own, bare in pairs)
        share = statistics.median(own / bare - 1 for own, bare in pairs)
        print(f"{name:30}{statistics.median(times):8.1f} us   + {over:6.1f} us   {100 * share:5.0f} %")


if __name__ == "__main__":
    main()
