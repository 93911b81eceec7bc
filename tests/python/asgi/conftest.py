"""An ASGI app under limits, asked by httpx on one event loop; in memory, unless a test is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asgi_sites import HELLO, AsgiSite
from memory_unless_marked import pytest_generate_tests, store
from overlimit import ManualClock
from overlimit.asgi import RateLimitMiddleware
from overlimit.stores import Store

__all__ = ["pytest_generate_tests", "store"]


class Site(AsgiSite):
    """A middleware around an app."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(self._app)
        self.middleware = RateLimitMiddleware(app, **options)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        user = dict(scope["headers"]).get(b"x-user", b"").decode()
        await self.middleware({**scope, "user": user}, receive, send)


@pytest.fixture
def make_site(store: Store, clock: ManualClock) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def make(app: Any = HELLO, **options: Any) -> Site:
        site = Site(app, **{"store": store, "clock": clock, "algorithm": "fixed_window", **options})
        sites.append(site)
        return site

    yield make
    for site in sites:
        site.close()
