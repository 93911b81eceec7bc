"""What a request gets while the store is away, slow, or silent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from overlimit.errors import StoreError
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
def make_remote(make_site: Any, proxy: FaultProxy, prefix: str) -> Callable[..., Any]:
    """Return a function that makes a site whose store is behind the proxy."""

    def make(timeout: float = DEADLINE, **options: Any) -> Any:
        return make_site(store=f"{proxy.url}?prefix={prefix}&timeout={timeout}", **options)

    return make


@pytest.fixture(params=["refuses", "is-silent", pytest.param("loses-replies", marks=pytest.mark.prove)])
def fail(request: pytest.FixtureRequest, proxy: FaultProxy) -> Callable[[], None]:
    """Return a function that takes the store away, in one way after the other."""
    return lambda: FAULTS[request.param](proxy)


def test_a_redis_that_never_answers_delays_a_request_by_a_tenth_of_a_second_at_most(make_site, proxy, prefix):
    site = make_site(default_limits="2/hour", store=f"{proxy.url}?prefix={prefix}")
    proxy.hold_all()
    began = time.monotonic()
    assert site.decision("/free").source == "error"
    assert 0.05 < time.monotonic() - began < 0.1 + GRACE


def test_by_default_requests_pass_without_rate_fields(make_remote, fail, caplog):
    site = make_remote(default_limits="2/hour", headers="both")
    assert site.ask("/free", 1) == [200]
    fail()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="overlimit"):
        assert site.ask("/free", 5) == [200] * 5
        assert time.monotonic() - began < 5 * DEADLINE + GRACE
        headers = site.open("/free").headers
        assert not [name for name, _ in headers if "ratelimit" in name.lower()]
        assert "Retry-After" not in headers
        assert [each for each in caplog.records if each.name.startswith("overlimit")]
        decision = site.decision("/free")
        assert (decision.source, decision.allowed, decision.details) == ("error", True, ())


def test_denied_requests_get_a_503_with_retry_after(make_remote, fail):
    site = make_remote(default_limits="9/hour", on_error="deny")
    eventually(lambda: site.ask("/free", 1) == [200])
    fail()
    began = time.monotonic()
    for accept in ("application/problem+json", "application/json", "text/html"):
        response = site.open("/free", headers={"Accept": accept})
        assert (response.status_code, response.mimetype) == (503, accept)
        assert 1 <= int(response.headers["Retry-After"]) <= 60
        assert "RateLimit" not in response.headers
    assert time.monotonic() - began < 3 * DEADLINE + GRACE


def test_raised_failures_are_errors_of_the_app(make_remote, fail):
    site = make_remote(default_limits="9/hour", on_error="raise")
    eventually(lambda: site.ask("/free", 1) == [200])
    fail()
    assert site.ask("/free", 2) == [500, 500]
    site.app.testing = True
    with pytest.raises(StoreError):
        site.open("/free")


def test_local_limits_take_over(make_remote, fail):
    site = make_remote(default_limits="3/hour", on_error="local")
    assert site.ask("/free", 1) == [200]
    fail()
    assert site.ask("/free", 4) == [200] * 3 + [429]
    assert site.decision("/free").source == "local"
    assert 1 <= int(site.open("/free").headers["Retry-After"]) <= 3600


@pytest.mark.parametrize("way", ["option", "configuration"])
def test_a_fallback_replaces_all_limits_while_the_store_fails(make_remote, proxy, way, caplog):
    site = make_remote(
        timeout=PATIENCE,
        default_limits="5/hour",
        config={"RATELIMIT_IN_MEMORY_FALLBACK": "2/hour"} if way == "configuration" else {},
        in_memory_fallback="2/hour" if way == "option" else None,
    )
    site.route("/tight", site.limiter.limit("1/hour"))
    assert site.ask("/free", 6) == [200] * 5 + [429]
    assert site.ask("/tight", 2) == [200, 429]
    proxy.refuse()
    assert site.ask("/free", 3) == [200, 200, 429]
    assert site.ask("/tight", 3) == [200, 200, 429]
    proxy.restore()
    eventually(lambda: site.decision("/tight").limit.quota == 1)
    assert site.ask("/tight", 1) == [429]
    assert caplog.text.count(" answers again, after ") == 1


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
    site = make_remote(application_limits="9/hour", on_error=of_the_site)
    site.route("/", site.limiter.limit("1/hour", on_error=of_the_route))
    proxy.refuse()
    assert site.ask("/", 2) == statuses


def test_recovery_needs_nobody(make_remote, fail, proxy):
    site = make_remote(default_limits="2/hour")
    assert site.ask("/free", 1) == [200]
    fail()
    assert site.ask("/free", 5) == [200] * 5
    proxy.restore()
    eventually(lambda: site.decision("/free").source == "store")
    assert site.ask("/free", 2)[-1:] == [429]


def test_an_exempt_request_asks_no_store(make_remote, proxy):
    site = make_remote(default_limits="2/hour", on_error="raise")
    site.route("/health", site.limiter.exempt)
    proxy.refuse()
    assert site.ask("/health", 2) == [200, 200]


@pytest.mark.parametrize("on_error", ["allow", "deny", "local"])
def test_a_shadow_limit_refuses_nobody_while_the_store_fails(make_remote, proxy, on_error):
    site = make_remote(on_error=on_error)
    site.route("/", site.limiter.limit("2/hour", shadow=True))
    proxy.refuse()
    assert site.ask("/", 4) == [200] * 4


def test_no_password_is_shown(make_site, start_redis, caplog):
    server = start_redis(password="s3cret")
    caplog.set_level(logging.DEBUG)
    site = make_site(store=f"{server.tcp_url()}?timeout=10", on_error="deny", default_limits="2/hour")
    assert site.ask("/free", 1) == [200]
    server.kill()
    response = site.open("/free")
    assert response.status_code == 503
    shown = [
        caplog.text,
        response.text,
        repr(site.limiter),
        str(vars(site.limiter)),
        repr(site.app.extensions),
    ]
    assert [text for text in shown if "s3cret" in text] == []
