"""A FastAPI app under limits, with a clock that stands still; in memory, unless a test is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from asgi_sites import AsgiSite
from memory_unless_marked import pytest_generate_tests, store, store_calls
from overlimit import ManualClock
from overlimit.fastapi import RateLimit
from overlimit.stores import Store

__all__ = ["pytest_generate_tests", "store", "store_calls"]


class Site(AsgiSite):
    """An app with one RateLimit; the user is the header X-User."""

    def __init__(self, **options: Any) -> None:
        self.app = FastAPI()
        super().__init__(self._app)
        self.limiter = RateLimit(self.app, **options)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        user = dict(scope.get("headers", ())).get(b"x-user", b"").decode()
        await self.app({**scope, "user": user or None}, receive, send)

    def items(self, path: str = "/", **options: Any) -> dict[str, int]:
        """Send a request and return what the RateLimit field says is left, by name."""
        field = self.ask(path, **options).headers.get("RateLimit", "")
        items = [item.split(";") for item in field.split(", ") if item]
        return {item[0].strip('"'): int(item[1].removeprefix("r=")) for item in items}


@pytest.fixture
def make_site(store: Store, clock: ManualClock) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def make(**options: Any) -> Site:
        site = Site(**{"store": store, "clock": clock, "algorithm": "fixed_window", **options})
        sites.append(site)
        return site

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """Return a site without limits of its own."""
    return make_site()
