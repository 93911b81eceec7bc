"""A Flask app under limits, with a clock that stands still; on every store where that is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from flask import Flask, g, request
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from memory_unless_marked import pytest_generate_tests, store, store_calls
from overlimit import ManualClock, MemoryStore, RedisStore
from overlimit.flask import RateLimit

__all__ = ["pytest_generate_tests", "store", "store_calls"]


class Site:
    """An app with one RateLimit; ``/free`` has no decorator."""

    def __init__(
        self, static_folder: str | None = None, config: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        self.app = Flask("site", static_folder=static_folder)
        self.app.config.update(config or {})
        self.clock = options["clock"]
        self.limiter = RateLimit(self.app, **{"algorithm": "fixed_window", **options})
        self.app.before_request(self._load_user)
        self.app.add_url_rule("/free", "free", lambda: "free")

    @staticmethod
    def _load_user() -> None:
        g.user = request.headers.get("X-User")

    def open(self, path: str, **options: Any) -> TestResponse:
        """Send a request: ``user=``, ``ip=``, ``method=``, ``headers=``."""
        return self._send(self.app.test_client(), path, **options)

    def decision(self, path: str, **options: Any) -> Any:
        """Send a request and return its ``current_decision``."""
        with self.app.test_client() as client:
            self._send(client, path, **options)
            return self.limiter.current_decision

    def quotas(self, path: str, **options: Any) -> list[int]:
        """Send a request and return the quota of each limit that was evaluated, in ascending order."""
        decision = self.decision(path, **options)
        return [] if decision is None else sorted(detail.limit.quota for detail in decision.details)

    def left(self, path: str, **options: Any) -> dict[int, int]:
        """Send a request and return what remains of each limit, by its quota."""
        return {detail.limit.quota: detail.remaining for detail in self.decision(path, **options).details}

    @staticmethod
    def _send(
        client: FlaskClient,
        path: str,
        *,
        user: str = "",
        ip: str = "192.0.2.1",
        method: str = "GET",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> TestResponse:
        named = {"X-User": user} if user else {}
        return client.open(
            path, method=method, headers={**headers, **named}, environ_overrides={"REMOTE_ADDR": ip}
        )

    def route(self, path: str, *decorators: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Add a view that answers ``ok``, with the decorators below the route, the first one outermost.

        Its endpoint is the path, unless the options say otherwise.
        """
        view: Callable[..., Any] = _answer_ok()
        for decorator in reversed(decorators):
            view = decorator(view)
        self.app.add_url_rule(path, **{"endpoint": path.strip("/") or "index", "view_func": view, **options})
        return view

    def ask(self, path: str, times: int, **options: Any) -> list[int]:
        """Return the status codes of so many requests."""
        statuses = []
        for _ in range(times):
            with self.open(path, **options) as response:
                statuses.append(response.status_code)
        return statuses


def _answer_ok() -> Callable[..., str]:
    return lambda **arguments: "ok"


def ask(app: Flask, times: int, path: str = "/") -> list[int]:
    """Return the status codes of so many requests to an app."""
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


@pytest.fixture
def make_site(store: MemoryStore | RedisStore, clock: ManualClock) -> Callable[..., Site]:
    """Return ``Site`` with the store and the clock of this test."""

    def make(**options: Any) -> Site:
        return Site(**{"store": store, "clock": clock, **options})

    return make
