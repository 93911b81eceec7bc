"""What a request gets while the store is away, slow, or silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from servers.fault_proxy import FaultProxy
from servers.patience import PATIENCE, eventually
from servers.redis_server import RedisServer

DEADLINE = 0.5


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
