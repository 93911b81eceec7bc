"""What a client sends to get another count, or none: what is limited is what a path function is given."""

from __future__ import annotations

import logging
from enum import Enum
from inspect import signature

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, Path, Request, WebSocket
from starlette.endpoints import HTTPEndpoint
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host
from starlette.staticfiles import StaticFiles

from asgi_sites import Handshake
from overlimit.asgi import RateLimitMiddleware
from overlimit.fastapi import by_header, by_json, by_path_parameter


class Colour(Enum):
    RED = "red"


async def plain(scope, receive, send):
    await PlainTextResponse("plain")(scope, receive, send)


async def accepts(websocket: WebSocket):
    await websocket.accept()


async def other(scope, receive, send):
    await plain(scope, receive, send)


def test_the_first_of_several_header_fields_is_limited(make_site):
    site = make_site(default_limits="1/minute", identifiers=by_header("x-key"))
    given = []

    @site.app.get("/")
    async def index(x_key: str = Header()) -> None:
        given.append(x_key)

    fields = [[("X-Key", "good"), ("X-Key", str(number))] for number in range(2)]
    assert [site.ask(headers=each).status_code for each in fields] == [200, 429]
    assert site.statuses("/", 1, headers={"X-Key": "other"}) == [200]
    assert given == ["good", "other"]


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/vnd.api+json"}])
def test_a_body_without_a_type_is_limited_as_the_json_that_it_is(make_site, headers):
    site = make_site(identifiers=by_json("a"), anonymous="exempt")
    is_strict = "strict_content_type" in signature(APIRouter).parameters  # as later releases are, unless told
    router = APIRouter(**({"strict_content_type": False} if is_strict else {}))

    @router.post("/")
    @site.limiter.limit("1/minute")
    async def index(body: dict[str, str]) -> str:
        return body["a"]

    site.app.include_router(router)
    body = {"method": "POST", "content": b'{"a": "victim"}', "headers": headers}
    assert site.statuses("/", 2, **body) == [200, 429]


WRITTEN = [
    b'{"a":"other","a":"victim"}',
    b' \n{"\\u0061" : "victi\\u006d", "b": [1]}\n',
    b'\xef\xbb\xbf{"a":"victim"}',
    *('{"a":"victim"}'.encode(encoding) for encoding in ("utf-16", "utf-16-le", "utf-32-be")),
]


@pytest.mark.parametrize("first", [False, True], ids=["after validation", "before validation"])
def test_a_member_of_json_counts_as_it_is_read_however_it_is_written(site, first):
    @site.app.post("/")
    @site.limiter.limit("6/minute", identifiers=by_json("a"), before_validation=first)
    async def index(request: Request) -> str:
        return (await request.json())["a"]

    fields = {"method": "POST", "headers": {"Content-Type": "application/json"}}
    admitted = [site.ask(content=body, **fields) for body in WRITTEN]
    assert [(answer.status_code, answer.json()) for answer in admitted] == [(200, "victim")] * 6
    assert [site.ask(content=body, **fields).status_code for body in WRITTEN] == [429] * 6
    assert site.ask(content=b'{"a":"other"}', **fields).status_code == 200


def test_a_path_parameter_counts_as_the_value_that_is_given(make_site):
    site = make_site(default_limits="1/minute", identifiers=by_path_parameter("tenant"))

    @site.app.get("/numbers/{tenant}")
    async def number(tenant: int) -> int:
        return tenant

    @site.app.get("/aliases/{tenant}")
    def alias(given: int = Path(alias="tenant")) -> int:
        return given

    @site.app.get("/colours/{tenant}")
    def colour(tenant: Colour) -> Colour:
        return tenant

    for path in ("/numbers/", "/aliases/"):
        statuses = [site.ask(path + text).status_code for text in ("1", "01", "+1", "2")]
        assert statuses == [200, 429, 429, 200]
    assert site.statuses("/colours/red", 2) == [200, 429]
    site.limiter.reset(by_path_parameter("tenant").identifier("red"))
    assert site.statuses("/colours/red", 2) == [200, 429]


@pytest.mark.parametrize("limits", ["default_limits", "application_limits"])
def test_mounted_apps_without_routes_are_limited(make_site, limits):
    site = make_site(**{limits: "1/minute"})
    site.app.mount("/plain", plain)
    site.app.mount("/wrapped", CORSMiddleware(plain, allow_origins=["*"]))
    site.app.router.routes.append(Host("elsewhere", other))
    first = 200 if limits == "default_limits" else 429
    assert site.statuses("/plain/a", 1) + site.statuses("/plain/b", 1) == [200, 429]
    assert site.statuses("/wrapped/", 2) == [first, 429]
    assert site.statuses("/", 2, headers={"Host": "elsewhere"}) == [first, 429]
    assert site.statuses("/plain/", 1, ip="192.0.2.9", method="OPTIONS") == [200]


def test_handshakes_to_a_mounted_app_are_limited(make_site):
    async def accepting(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})

    site = make_site(default_limits="1/minute")
    site.app.mount("/ws", accepting)
    assert [Handshake("/ws/a").through(site).kinds for _ in range(2)] == [["accept"], ["close"]]


def test_routes_of_an_app_that_is_mounted_within_middleware_are_limited(make_site):
    site, inner = make_site(default_limits="1/minute"), FastAPI()
    inner.get("/a")(lambda: 1)
    inner.get("/b")(lambda: 1)
    site.app.mount("/inner", CORSMiddleware(inner, allow_origins=["*"]))
    assert site.statuses("/inner/a", 2) + site.statuses("/inner/b", 2) == [200, 429, 200, 429]
    assert site.statuses("/inner/nowhere", 2) == [404, 404]


def hidden(app):
    """Return what calls an app, and does not say so."""

    async def call(scope, receive, send):
        await app(scope, receive, send)

    return call


def test_an_app_that_is_also_mounted_where_it_is_hidden_is_decided_once(make_site):
    site, inner = make_site(default_limits="2/minute", application_limits="6/minute"), FastAPI()
    for path in ("/a", "/b"):
        inner.get(path)(lambda: 1)
    inner.websocket("/ws")(site.limiter.limit("1/minute")(accepts))
    site.app.mount("/open", inner)
    site.app.mount("/hidden", hidden(inner))
    assert site.statuses("/open/a", 1) + site.statuses("/hidden/a", 3) == [200, 200, 429, 429]
    assert site.items("/hidden/b") == {"default": 1, "application": 3}
    assert site.statuses("/hidden/nowhere", 3) == [404, 404, 429]
    site.limiter.reset_all()
    asked = [Handshake(f"/{way}/ws").through(site).kinds for way in ("hidden", "open", "hidden")]
    assert asked == [["accept"], ["close"], ["close"]]


def test_static_files_are_not_limited(make_site, tmp_path):
    site = make_site(default_limits="1/minute")
    (tmp_path / "a.txt").write_text("a")
    site.app.mount("/static", StaticFiles(directory=tmp_path))
    assert site.statuses("/static/a.txt", 3) == [200] * 3


def test_a_method_that_a_class_lacks_is_free_and_small_letters_are_no_way_around(make_site):
    site = make_site()

    class Endpoint(HTTPEndpoint):
        @site.limiter.limit("1/minute", methods=["GET"])
        async def get(self, request):
            return PlainTextResponse("got")

    site.app.add_route("/", Endpoint)
    assert site.statuses("/", 2, method="POST") == [405, 405]
    assert site.statuses("/", 1, method="get") + site.statuses("/", 1) == [200, 429]


def test_a_decorated_call_of_an_object_is_limited(site, caplog):
    class Thing:
        @site.limiter.limit("1/minute")
        def __call__(self) -> int:
            return 1

    thing = Thing()
    site.app.get("/path")(thing)

    @site.app.get("/dependency")
    def index(given: int = Depends(thing)) -> int:
        return given

    with caplog.at_level(logging.WARNING, "overlimit"):
        assert site.statuses("/path", 2) + site.statuses("/dependency", 2) == [200, 429] * 2
    assert "holds for no request" not in caplog.text


@pytest.mark.parametrize("kind", ["memory", "shared memory"])
@pytest.mark.parametrize("option", ["application_limits", "global_limits"])
def test_middleware_around_a_ratelimit_counts_apart(request, make_site, kind, option):
    store = "memory://" if kind == "memory" else request.getfixturevalue("shared_memory_store")
    site = make_site(store=store, **{option: "4/hour"})
    site.app.get("/")(lambda: 1)
    site.app.add_middleware(
        RateLimitMiddleware, store=store, **{option.replace("application_", ""): "4/hour"}
    )
    assert site.statuses("/", 5) == [200] * 4 + [429]
