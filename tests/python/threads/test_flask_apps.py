"""The first requests of a Flask app, by many threads at once."""

from __future__ import annotations

import logging

import pytest
from flask import Flask

from overlimit.flask import RateLimit, rate_limit
from overlimit.wsgi import RateLimitMiddleware

from .together import THREADS, all_together, joined, meanwhile

REQUESTS = 8


def statuses(app: Flask, path: str) -> list[int]:
    return [app.test_client().get(path).status_code for _ in range(REQUESTS)]


def admitted(app: Flask, path: str) -> int:
    """How many requests of all threads pass; all others are refused."""
    found = joined(all_together(lambda _: statuses(app, path)))
    assert found.count(200) + found.count(429) == THREADS * REQUESTS
    return found.count(200)


def test_without_a_ratelimit_an_app_has_one_count(caplog):
    for _ in range(5):
        app = Flask("app")
        app.get("/")(rate_limit("7/day")(lambda: "ok"))
        with caplog.at_level(logging.WARNING):
            assert admitted(app, "/") == 7
        assert len([record for record in caplog.records if "has no RateLimit" in record.message]) == 1
        caplog.clear()


@pytest.mark.parametrize("options", [{}, {"shadow": True}], ids=["enforced", "shadow"])
def test_each_kind_of_limit_counts_once(options, caplog):
    app = Flask("app")
    limiter = RateLimit(app, default_limits="9/day", **options)

    @app.get("/plain")
    def plain():
        return "ok"

    @app.get("/block")
    @limiter.exempt
    def block():
        with limiter.limit("5/day"):
            return "ok"

    @limiter.limit("6/day")
    def function():
        return "ok"

    @app.get("/function")
    @limiter.exempt
    def calls_function():
        return function()

    @app.get("/dynamic")
    @limiter.limit(lambda: "4/day")
    def dynamic():
        return "ok"

    counts = {"/plain": 9, "/block": 5, "/function": 6, "/dynamic": 4}
    with caplog.at_level(logging.WARNING):
        passed = {path: admitted(app, path) for path in counts}
    if options:
        assert passed == dict.fromkeys(counts, THREADS * REQUESTS)
        # One warning of each limit, however many threads it would have refused.
        assert len([record for record in caplog.records if "in shadow" in record.message]) == len(counts)
    else:
        assert passed == counts


def test_requests_go_on_while_a_limit_is_switched_and_registered():
    app = Flask("app")
    limiter = RateLimit(app, default_limits="1000/day")
    app.get("/")(lambda: "ok")

    def switch() -> None:
        with limiter.disabled():
            pass
        limiter.init_app(app)

    found = joined(meanwhile(lambda: all_together(lambda _: statuses(app, "/")), switch))
    assert found == [200] * THREADS * REQUESTS


def test_what_does_not_count_is_given_back_once():
    app = Flask("app")
    limiter = RateLimit(app, default_limits="50/day")

    @app.get("/free")
    @limiter.limit("50/day", deduct_when=lambda response: False)
    def free():
        return "ok"

    assert admitted(app, "/free") == THREADS * REQUESTS
    assert {app.test_client().get("/free").status_code for _ in range(60)} == {200}


def test_a_middleware_admits_exactly_the_limit():
    def answer(environ, start_response):
        start_response("200 OK", [])
        return [b"ok"]

    app = Flask("app")
    app.wsgi_app = RateLimitMiddleware(answer, limits="11/day")
    assert admitted(app, "/anything") == 11
