"""A Django site per test: its URLs, its limits, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import django
import pytest
from django.conf import settings
from django.test import AsyncClient, Client, override_settings

from memory_unless_marked import pytest_generate_tests, store
from overlimit import ManualClock

__all__ = ["pytest_generate_tests", "store"]

OURS = "overlimit.django.RateLimitMiddleware"

settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "overlimit.django",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    SECRET_KEY="only for tests",
    USE_TZ=True,
)
django.setup()

Serve = Callable[..., Client]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000)


class Site:
    """What is served, and by which limits."""

    def __init__(self, overrides: ExitStack, clock: ManualClock) -> None:
        self._overrides, self._clock = overrides, clock

    def __call__(
        self, *urls: Any, middleware: Any = (OURS,), before: Any = (), client: Any = Client, **limits: Any
    ) -> Any:
        """Serve these paths, and return a client; limits are those of the setting, in small letters."""
        given = {"CLOCK": self._clock, **{name.upper(): value for name, value in limits.items()}}
        self._overrides.enter_context(
            override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[*before, *middleware], OVERLIMIT=given)
        )
        return client(raise_request_exception=False)

    def asynchronously(self, *urls: Any, **options: Any) -> AsyncClient:
        """Serve them on an event loop."""
        return self(*urls, client=AsyncClient, **options)


@pytest.fixture
def serve(clock: ManualClock) -> Iterator[Site]:
    with ExitStack() as overrides:
        yield Site(overrides, clock)


@pytest.fixture(params=["with the middleware", "alone"])
def either(request: pytest.FixtureRequest, serve: Site) -> Callable[..., Any]:
    """Return ``serve``, with the middleware and without."""
    alone = request.param == "alone"

    def served(*urls: Any, **options: Any) -> Any:
        return serve(*urls, **({"middleware": ()} if alone else {}), **options)

    return served


def statuses(client: Any, path: str = "/", times: int = 3, **options: Any) -> list[int]:
    """Return the statuses of some requests, one after the other."""
    return [client.get(path, **options).status_code for _ in range(times)]
