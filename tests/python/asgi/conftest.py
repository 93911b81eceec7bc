"""An ASGI app under limits, asked by httpx on one event loop; in memory, unless a test is marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from asgi_sites import HELLO
from memory_unless_marked import pytest_generate_tests, store
from overlimit import ManualClock
from overlimit.asgi import RateLimitMiddleware
from overlimit.stores import Store

__all__ = ["pytest_generate_tests", "store"]


class Site:
    """A middleware around an app."""

    def __init__(self, app: Any, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self.middleware = RateLimitMiddleware(app, **options)
        self.root_path = ""

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        user = headers.get(b"x-user", b"").decode()
        await self.middleware({**scope, "user": user}, receive, send)

    def ask(self, path: str = "/", *, method: str = "GET", ip: str = "192.0.2.1", **options: Any) -> Any:
        """Send one request; an exception of the app is a 500, as servers make it."""
        transport = httpx.ASGITransport(
            self._app, client=(ip, 5000), root_path=self.root_path, raise_app_exceptions=False
        )
        return self.run(self._ask(transport, method, path, options))

    async def _ask(self, transport: Any, method: str, path: str, options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            return await client.request(method, path, **options)

    def statuses(self, path: str = "/", times: int = 1, **options: Any) -> list[int]:
        return [self.ask(path, **options).status_code for _ in range(times)]

    def run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


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
