"""In apps of Starlette, among mounts and beside CORSMiddleware: docs/reference/middleware.md."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route

from asgi_sites import AsgiSite
from overlimit.asgi import RateLimitMiddleware


def served(app: Any, path: str, times: int) -> list[int]:
    site = AsgiSite(app)
    found = site.statuses(path, times)
    site.close()
    return found


def test_a_middleware_around_mounts_tells_them_apart_and_one_that_is_mounted_twice_does_not(clock):
    inner = Starlette(routes=[Route("/items", lambda request: PlainTextResponse("items"))])
    mounts = Starlette(routes=[Mount("/v1", inner), Mount("/v2", inner), Host("v3.example", inner)])
    around = RateLimitMiddleware(mounts, routes={"/v1/*": "1/minute", "/v2/*": "2/minute"}, clock=clock)
    assert served(around, "/v1/items", 2) + served(around, "/v2/items", 3) == [200, 429, 200, 200, 429]
    within = RateLimitMiddleware(inner, routes={"/items": "1/minute"}, clock=clock)
    twice = Starlette(routes=[Mount("/v1", within), Mount("/v2", within)])
    assert served(twice, "/v1/items", 1) + served(twice, "/v2/items", 2) == [200, 429, 429]


SHOP = "https://shop.example"


@pytest.mark.parametrize("is_outside", [True, False])
def test_a_browser_of_another_origin_reads_a_refusal_where_cors_is_the_outer_middleware(clock, is_outside):
    cors = Middleware(CORSMiddleware, allow_origins=[SHOP], expose_headers=["RateLimit", "Retry-After"])
    limits = Middleware(RateLimitMiddleware, limits="1/minute", clock=clock)
    app = Starlette(
        routes=[Route("/", lambda request: PlainTextResponse("hello"))],
        middleware=[cors, limits] if is_outside else [limits, cors],
    )
    site = AsgiSite(app)
    asking = {"Origin": SHOP, "Access-Control-Request-Method": "GET"}
    preflight = site.ask("/", method="OPTIONS", headers=asking)
    passed, refused = (site.ask("/", headers={"Origin": SHOP}) for _ in range(2))
    assert [each.status_code for each in (preflight, passed, refused)] == [200, 200, 429]
    for answer in (passed, refused):
        is_readable = answer.headers.get("Access-Control-Allow-Origin") == SHOP
        assert is_readable == (is_outside or answer is passed)
        assert ("Retry-After" in answer.headers.get("Access-Control-Expose-Headers", "")) == is_readable
        assert "RateLimit" in answer.headers
    site.close()
