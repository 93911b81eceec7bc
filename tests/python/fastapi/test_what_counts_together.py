"""Which routes count together, wherever their apps are mounted: docs/reference/fastapi.md."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router

from asgi_sites import Handshake


async def items() -> str:
    """Answer as a function of a module does, which has one name."""
    return "items"


def factory(limiter: Any, limits: str, kind: str = "function") -> Any:
    """Return an app whose only path is /items, with a function of its own."""

    async def items_of_app() -> str:
        return limits

    if kind == "starlette":
        route = Route("/items", limiter.limit(limits)(lambda request: PlainTextResponse(limits)))
        return Starlette(routes=[route])
    app = FastAPI()
    app.get("/items")(limiter.limit(limits)((lambda: limits) if kind == "lambda" else items_of_app))
    return CORSMiddleware(app, allow_origins=["*"]) if kind == "wrapped" else app


@pytest.mark.parametrize("kind", ["function", "lambda", "starlette", "wrapped"])
def test_apps_of_one_factory_have_counts_of_their_own(site, kind):
    site.app.mount("/v1", factory(site.limiter, "1/minute", kind))
    site.app.mount("/v2", factory(site.limiter, "3/minute", kind))
    site.app.router.routes.append(Host("v3.example", factory(site.limiter, "2/minute", kind)))
    site.app.router.routes.append(Host("v4.example", factory(site.limiter, "2/minute", kind)))
    assert site.statuses("/v1/items", 2) == [200, 429]
    assert site.statuses("/v2/items", 4) == [200, 200, 200, 429]
    for host in ("v3.example", "v4.example"):
        assert site.statuses("/items", 3, headers={"Host": host}) == [200, 200, 429]


def test_defaults_of_apps_of_one_factory_count_apart(make_site):
    site = make_site(default_limits="1/minute", application_limits="5/minute")
    for version in ("/v1", "/v2", "/v3"):
        inner = FastAPI()
        inner.get("/items")(lambda: "items")
        outer = FastAPI()
        outer.mount("/inner", inner)
        site.app.mount(version, outer)
    for version in ("/v1", "/v2", "/v3"):
        assert site.statuses(f"{version}/inner/items", 2) == [200, 429]
    assert site.items("/v1/inner/items")["application"] == 2


@pytest.mark.parametrize("kind", ["function", "starlette"])
def test_one_app_that_is_mounted_twice_counts_by_mount(site, kind):
    inner = factory(site.limiter, "1/minute", kind)
    outer = Router([Mount("/deep", inner)])
    for path in ("/v1", "/v2"):
        site.app.mount(path, outer)
    site.app.mount("/v3/{tenant}", inner)
    site.app.router.routes.append(Host("{name}.example", inner))
    for path in ("/v1/deep/items", "/v2/deep/items", "/v3/red/items"):
        assert site.statuses(path, 2) == [200, 429]
    assert site.statuses("/v3/blue/items") == [429], "one path with a parameter is one mount"
    for host, status in (("a.example", 200), ("b.example", 429)):
        assert site.statuses("/items", headers={"Host": host}) == [status]
    site.limiter.reset_all()
    assert site.statuses("/v2/deep/items", 2) == [200, 429]


def test_a_function_of_a_module_counts_by_its_name_whatever_leads_to_it(make_site):
    site = make_site(default_limits="5/minute")
    router, first, second = APIRouter(), FastAPI(), FastAPI()
    router.get("/included")(items)
    site.app.include_router(router, prefix="/a")
    site.app.include_router(router, prefix="/b")
    for app in (site.app, first, second):
        app.get("/items")(items)
    site.app.mount("/first", first)
    site.app.mount("/second", second)
    paths = ["/a/included", "/b/included", "/items", "/first/items", "/second/items", "/items"]
    assert [site.ask(path).status_code for path in paths] == [200] * 5 + [429]
    site.limiter.reset("ip:192.0.2.1", endpoint=f"{__name__}.items")
    assert site.statuses("/second/items", 6) == [200] * 5 + [429]


def test_a_function_of_a_module_in_an_app_that_is_mounted_twice_counts_by_mount(make_site):
    site, inner = make_site(default_limits="1/minute"), FastAPI()
    inner.get("/items")(items)
    for path in ("/v1", "/v2"):
        site.app.mount(path, inner)
    assert site.statuses("/v1/items", 2) + site.statuses("/v2/items", 2) == [200, 429] * 2
    site.limiter.reset("ip:192.0.2.1", endpoint=f"{__name__}.items:/v1/items")
    assert site.statuses("/v1/items", 1) + site.statuses("/v2/items", 1) == [200, 429]


async def plain(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    await PlainTextResponse("plain")(scope, receive, send)


def test_a_plain_app_that_is_mounted_twice_counts_by_mount(make_site):
    site = make_site(default_limits="1/minute")
    for path in ("/old", "/older"):
        site.app.mount(path, plain)
    site.app.router.routes.append(Host("older.example", plain))
    assert site.statuses("/old/a", 2) + site.statuses("/older/b", 2) == [200, 429] * 2
    assert site.statuses("/", 2, headers={"Host": "older.example"}) == [200, 429]
    assert Handshake("/older/c").through(site).kinds == ["close"]


def test_functions_of_one_name_on_one_path_count_apart_by_their_methods(site):
    for method in ("GET", "POST", "PUT"):
        site.app.api_route("/", methods=[method])(site.limiter.limit("1/minute")(lambda: "answered"))

    @site.app.websocket("/")
    @site.limiter.limit("1/minute")
    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()

    for method in ("GET", "POST", "PUT"):
        assert site.statuses("/", 2, method=method) == [200, 429]
    assert [Handshake("/").through(site).kinds for _ in range(2)] == [["accept"], ["close"]]


class FirstThenSecond:
    """Asks a second app what the first does not have: middleware through which no route is found."""

    def __init__(self, first: Any, second: Any) -> None:
        self.app, self._second = first, second

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self._second if scope["path"].endswith("/items") else self.app)(scope, receive, send)


def test_a_way_to_a_route_that_was_not_found_is_no_way_around_its_limits(site):
    inner = factory(site.limiter, "1/minute")
    site.app.mount("/v1", inner)
    site.app.mount("/v2", FirstThenSecond(FastAPI(), inner))
    assert site.statuses("/v1/items", 1) + site.statuses("/v2/items", 1) == [200, 429]
