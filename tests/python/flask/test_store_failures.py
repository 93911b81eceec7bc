"""What a request gets while the store is away, slow, or silent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from overlimit.errors import StoreError
from overlimit.flask import RateLimit, rate_limit
from servers.fault_proxy import FaultProxy
from servers.patience import PATIENCE, eventually
from servers.redis_server import RedisServer

DEADLINE = 0.5
GRACE = 2.0
"""Seconds beyond the deadline that a busy machine may take."""

FAULTS = {
    "refuses": FaultProxy.refuse,
    "is-silent": FaultProxy.hold_all,
    "loses-replies": FaultProxy.hold_replies,
}


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[FaultProxy]:
    proxy = FaultProxy(redis_server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def make_remote(proxy: FaultProxy, prefix: str) -> Callable[..., tuple[Flask, RateLimit]]:
    """Return a function that makes an app whose store is behind the proxy."""

    def make(
        config: dict[str, Any] | None = None, timeout: float = DEADLINE, **options: Any
    ) -> tuple[Flask, RateLimit]:
        app = Flask("remote")
        app.config.update(config or {})
        app.get("/free", endpoint="free")(lambda: "free")
        url = f"{proxy.url}?prefix={prefix}&timeout={timeout}"
        return app, RateLimit(app, **{"store": url, "algorithm": "fixed_window", **options})

    return make


@pytest.fixture(params=["refuses", "is-silent", pytest.param("loses-replies", marks=pytest.mark.prove)])
def fail(request: pytest.FixtureRequest, proxy: FaultProxy) -> Callable[[], None]:
    """Return a function that takes the store away, in one way after the other."""
    return lambda: FAULTS[request.param](proxy)


def ask(app: Flask, times: int, path: str = "/free") -> list[int]:
    client = app.test_client()
    return [client.get(path).status_code for _ in range(times)]


def who_decided(app: Flask, limiter: RateLimit, path: str = "/free") -> str:
    with app.test_client() as client:
        client.get(path)
        return limiter.current_decision.source


def test_a_redis_that_never_answers_delays_a_request_by_a_tenth_of_a_second_at_most(proxy, prefix):
    app = Flask("remote")
    app.get("/free", endpoint="free")(lambda: "free")
    limiter = RateLimit(app, default_limits="2/hour", store=f"{proxy.url}?prefix={prefix}")
    proxy.hold_all()
    began = time.monotonic()
    assert who_decided(app, limiter) == "error"
    assert 0.05 < time.monotonic() - began < 0.1 + GRACE


def test_by_default_requests_pass_without_rate_fields(make_remote, fail, caplog):
    app, limiter = make_remote(default_limits="2/hour", headers="both")
    assert ask(app, 1) == [200]
    fail()
    began = time.monotonic()
    with app.test_client() as client, caplog.at_level(logging.WARNING, logger="overlimit"):
        assert ask(app, 5) == [200] * 5
        assert time.monotonic() - began < 5 * DEADLINE + GRACE
        headers = client.get("/free").headers
        assert not [name for name, _ in headers if "ratelimit" in name.lower()]
        assert "Retry-After" not in headers
        assert [each for each in caplog.records if each.name.startswith("overlimit")]
        decision = limiter.current_decision
        assert (decision.source, decision.allowed, decision.details) == ("error", True, ())


def test_denied_requests_get_a_503_with_retry_after(make_remote, fail):
    app, _ = make_remote(default_limits="9/hour", on_error="deny")
    eventually(lambda: ask(app, 1) == [200])
    fail()
    began = time.monotonic()
    for accept in ("application/problem+json", "application/json", "text/html"):
        response = app.test_client().get("/free", headers={"Accept": accept})
        assert (response.status_code, response.mimetype) == (503, accept)
        assert 1 <= int(response.headers["Retry-After"]) <= 60
        assert "RateLimit" not in response.headers
    assert time.monotonic() - began < 3 * DEADLINE + GRACE


def test_raised_failures_are_errors_of_the_app(make_remote, fail):
    app, _ = make_remote(default_limits="9/hour", on_error="raise")
    eventually(lambda: ask(app, 1) == [200])
    fail()
    assert ask(app, 2) == [500, 500]
    app.testing = True
    with pytest.raises(StoreError):
        app.test_client().get("/free")


def test_local_limits_take_over(make_remote, fail):
    app, limiter = make_remote(default_limits="3/hour", on_error="local")
    assert ask(app, 1) == [200]
    fail()
    assert ask(app, 4) == [200] * 3 + [429]
    with app.test_client() as client:
        response = client.get("/free")
        assert limiter.current_decision.source == "local"
        assert 1 <= int(response.headers["Retry-After"]) <= 3600


@pytest.mark.parametrize("way", ["option", "configuration"])
def test_a_fallback_replaces_all_limits_while_the_store_fails(make_remote, proxy, way):
    option = {"in_memory_fallback": "2/hour"}
    app, limiter = make_remote(
        {"RATELIMIT_IN_MEMORY_FALLBACK": "2/hour"} if way == "configuration" else {},
        timeout=PATIENCE,
        default_limits="5/hour",
        **(option if way == "option" else {}),
    )
    app.get("/tight", endpoint="tight")(limiter.limit("1/hour")(lambda: "ok"))
    assert ask(app, 6) == [200] * 5 + [429]
    assert ask(app, 2, "/tight") == [200, 429]
    proxy.refuse()
    assert ask(app, 3) == [200, 200, 429]
    assert ask(app, 3, "/tight") == [200, 200, 429]
    proxy.restore()
    eventually(lambda: who_decided(app, limiter, "/tight") == "store")
    assert ask(app, 1, "/tight") == [429]


@pytest.mark.parametrize(
    ("of_the_site", "of_the_route", "statuses"),
    [
        ("allow", None, [200, 200]),
        ("allow", "deny", [503, 503]),
        ("deny", "allow", [503, 503]),
        ("allow", "raise", [500, 500]),
        ("raise", "deny", [500, 500]),
        ("local", "allow", [200, 429]),
        ("allow", "local", [200, 429]),
    ],
)
def test_the_strictest_way_among_the_policies_of_a_request_holds(
    make_remote, proxy, of_the_site, of_the_route, statuses
):
    app, limiter = make_remote(application_limits="9/hour", on_error=of_the_site)
    app.get("/", endpoint="index")(limiter.limit("1/hour", on_error=of_the_route)(lambda: "ok"))
    proxy.refuse()
    assert ask(app, 2, "/") == statuses


def test_recovery_needs_nobody(make_remote, fail, proxy):
    app, limiter = make_remote(default_limits="2/hour")
    assert ask(app, 1) == [200]
    fail()
    assert ask(app, 5) == [200] * 5
    proxy.restore()
    eventually(lambda: who_decided(app, limiter) == "store")
    assert ask(app, 2)[-1:] == [429]


def test_an_exempt_request_asks_no_store(make_remote, proxy):
    app, limiter = make_remote(default_limits="2/hour", on_error="raise")
    app.get("/health")(limiter.exempt(lambda: "ok"))
    proxy.refuse()
    assert ask(app, 2, "/health") == [200, 200]


@pytest.mark.parametrize("on_error", ["allow", "deny", "local"])
def test_a_shadow_limit_refuses_nobody_while_the_store_fails(make_remote, proxy, on_error):
    app, limiter = make_remote(on_error=on_error)
    app.get("/")(limiter.limit("2/hour", shadow=True)(lambda: "ok"))
    proxy.refuse()
    assert ask(app, 4, "/") == [200] * 4


def test_no_password_is_shown(start_redis, caplog):
    server = start_redis(password="s3cret")
    app = Flask("secret")
    app.get("/", endpoint="index")(rate_limit("2/hour")(lambda: "ok"))
    caplog.set_level(logging.DEBUG)
    limiter = RateLimit(app, store=f"{server.tcp_url()}?timeout=10", on_error="deny")
    assert ask(app, 1, "/") == [200]
    server.kill()
    response = app.test_client().get("/")
    assert response.status_code == 503
    shown = [caplog.text, response.text, repr(limiter), str(vars(limiter)), repr(app.extensions)]
    assert [text for text in shown if "s3cret" in text] == []
