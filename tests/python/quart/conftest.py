"""A Quart app under limits, asked by Quart's own test client, with a clock that stands still."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest
from quart import Quart, g, request

from memory_unless_marked import pytest_generate_tests, store
from overlimit import ManualClock
from overlimit.quart import RateLimit
from overlimit.stores import Store

__all__ = ["pytest_generate_tests", "store"]

T = TypeVar("T")


class Answer(NamedTuple):
    """What a client sees."""

    status: int
    headers: Any
    text: str

    @property
    def left(self) -> dict[str, int]:
        """What the RateLimit field says is left, by name."""
        items = [item.split(";") for item in self.headers.get("RateLimit", "").split(", ") if item]
        return {item[0].strip('"'): int(item[1].removeprefix("r=")) for item in items}


class Site:
    """An app with one RateLimit, unless it is given none; the user is the header X-User."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_limited: bool = True, **options: Any) -> None:
        self.loop = loop
        self.app = Quart("shop")
        self.app.config["PROPAGATE_EXCEPTIONS"] = True
        self.app.before_request(self._log_in)
        self.limiter = RateLimit(self.app if is_limited else None, **options)

    def add(self, path: str, view: Callable[..., Any] = lambda: "ok", method: str = "GET") -> None:
        """Add a view whose endpoint is called like its path."""
        name = re.sub(r"\W+", "_", path).strip("_") or "view"
        self.app.add_url_rule(path, name, view, methods=[method])

    async def _log_in(self) -> None:
        g.user = request.headers.get("X-User")

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(task)

    async def asking(
        self, path: str = "/", method: str = "GET", peer: str = "192.0.2.1", **more: Any
    ) -> Answer:
        """Send a request; ``more`` is what the test client takes."""
        base = {"client": (peer, 5000)}
        response = await self.app.test_client().open(path, method=method, scope_base=base, **more)
        return Answer(response.status_code, response.headers, await response.get_data(as_text=True))

    def ask(self, *about: Any, **named: Any) -> Answer:
        return self.run(self.asking(*about, **named))

    def statuses(self, *paths: str, **named: Any) -> list[int]:
        return [self.ask(path, **named).status for path in paths]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def make_site(store: Store, clock: ManualClock, loop: asyncio.AbstractEventLoop) -> Callable[..., Site]:
    def make(**options: Any) -> Site:
        return Site(loop, **{"store": store, "clock": clock, "algorithm": "fixed_window", **options})

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """Return a site without limits of its own."""
    return make_site()
