"""A Flask app under limits, on each store in turn, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, g, request
from werkzeug.test import TestResponse

from overlimit import ManualClock, MemoryStore, RedisStore
from overlimit.flask import RateLimit
from overlimit.http.plan import People, Plan, Ruling


class Site:
    """An app with one RateLimit; ``/free`` has no decorator."""

    def __init__(self, static_folder: str | None = None, **options: Any) -> None:
        self.app = Flask("site", static_folder=static_folder)
        self.clock = options["clock"]
        self.limiter = RateLimit(self.app, **{"algorithm": "fixed_window", **options})
        self.app.before_request(self._load_user)
        self.app.add_url_rule("/free", "free", lambda: "free")

    @staticmethod
    def _load_user() -> None:
        g.user = request.headers.get("X-User")

    def open(self, path: str, *, user: str = "", ip: str = "192.0.2.1", method: str = "GET") -> TestResponse:
        headers = {"X-User": user} if user else {}
        return self.app.test_client().open(
            path, method=method, headers=headers, environ_overrides={"REMOTE_ADDR": ip}
        )

    def ask(self, path: str, times: int, **options: Any) -> list[int]:
        """Return the status codes of so many requests."""
        statuses = []
        for _ in range(times):
            with self.open(path, **options) as response:
                statuses.append(response.status_code)
        return statuses


@pytest.fixture
def make_site(store: MemoryStore | RedisStore, clock: ManualClock) -> Callable[..., Site]:
    """Return ``Site`` with the store and the clock of this test."""

    def make(**options: Any) -> Site:
        return Site(**{"store": store, "clock": clock, **options})

    return make


@pytest.fixture
def store_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[Any, ...]]]:
    """Return the charges of each call to a store, as they come."""
    calls: list[list[tuple[Any, ...]]] = []
    decide = Plan.decide

    def noted(plan: Plan, people: People) -> Ruling:
        ruling = decide(plan, people)
        calls.append(
            [
                (rule.limiter, identifier, rule.cost)
                for rule in plan.rules
                for identifier in people[rule.identify]
            ]
        )
        return ruling

    monkeypatch.setattr(Plan, "decide", noted)
    return calls
