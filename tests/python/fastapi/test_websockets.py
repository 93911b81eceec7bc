"""Websocket routes under limits: refused before they are accepted; docs/reference/fastapi.md."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, Depends, WebSocket

from asgi_sites import Handshake
from overlimit.aio import AsyncLimiter


@pytest.fixture
def websockets(site):
    """Return a site whose websocket routes are limited in each way."""
    limiter = site.limiter

    @site.app.websocket("/decorated")
    @limiter.limit("1/minute")
    async def decorated(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    router = APIRouter(dependencies=[Depends(limiter.dependency("1/minute"))])

    @router.websocket("/depends")
    async def depends(socket: WebSocket, number: int) -> None:
        await socket.accept()
        await socket.close(code=3000 + number)

    @site.app.websocket("/first")
    @limiter.limit("1/minute", before_validation=True)
    async def first(websocket: WebSocket, number: int) -> None:
        await websocket.accept()
        await websocket.close()

    site.app.include_router(router, prefix="/in")
    return site


@pytest.mark.parametrize("path", ["/decorated", "/in/depends?number=7", "/first?number=7"])
def test_a_handshake_is_refused_before_it_is_accepted(websockets, path):
    accepted = Handshake(path).through(websockets)
    assert accepted.kinds == ["accept", "close"]
    assert dict(accepted.sent[0]["headers"])[b"ratelimit"].endswith(b";r=0;t=60")
    refused = Handshake(path).through(websockets)
    assert [(message["type"], message["code"]) for message in refused.sent] == [("websocket.close", 1008)]
    denied = Handshake(path, denial=True).through(websockets)
    assert denied.kinds == ["http.response.start", "http.response.body"]
    assert denied.sent[0]["status"] == 429
    assert dict(denied.sent[0]["headers"])[b"retry-after"] == b"60"


def test_a_handshake_that_is_invalid_is_free_unless_it_is_decided_first(websockets):
    for _ in range(3):
        assert Handshake("/in/depends?number=x").through(websockets).kinds == ["close"]
    assert Handshake("/in/depends?number=1").through(websockets).kinds == ["accept", "close"]
    assert Handshake("/first?number=x").through(websockets).kinds == ["close"]
    assert Handshake("/first?number=1").through(websockets).sent[0]["code"] == 1008


def test_what_a_dependency_has_accepted_is_closed(site):
    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()

    @site.app.websocket("/")
    @site.limiter.limit("1/minute")
    async def talk(websocket: WebSocket, _: None = Depends(accept)) -> None:
        await websocket.close()

    assert Handshake("/").through(site).kinds == ["accept", "close"]
    refused = Handshake("/").through(site)
    assert refused.kinds == ["accept", "close"]
    assert refused.sent[1]["code"] == 1008


def test_default_limits_hold_for_websockets(make_site):
    site = make_site(default_limits="1/minute")

    @site.app.websocket("/")
    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    assert [Handshake("/").through(site).kinds for _ in range(2)] == [["accept", "close"], ["close"]]


def test_a_dependency_of_a_websocket_that_is_overridden_takes_its_limits_with_it(site):
    user = site.limiter.limit("1/minute")(lambda: 1)
    router = APIRouter()

    @site.app.websocket("/app")
    @router.websocket("/router")
    async def talk(websocket: WebSocket, _: int = Depends(user)) -> None:
        await websocket.accept()

    site.app.include_router(router)

    def firsts(path):
        return [Handshake(path).through(site).kinds[0] for _ in range(3)]

    for path in ("/app", "/router"):
        site.limiter.reset_all()
        assert firsts(path) == ["accept", "close", "close"]
        site.app.dependency_overrides = {user: lambda: 9}
        assert firsts(path) == ["accept"] * 3
        site.limiter.reset_all()
        site.app.dependency_overrides = {user: site.limiter.limit("2/minute")(lambda: 9)}
        assert firsts(path) == ["accept", "accept", "close"]
        site.app.dependency_overrides = {}


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize("denial", [True, False])
@pytest.mark.parametrize("accepts", [True, False])
def test_what_a_limiter_of_the_app_refuses_closes_a_websocket_too(site, clock, limited, denial, accepts):
    own = AsyncLimiter("1/minute", name="own", clock=clock)

    @site.app.websocket("/own")
    async def speak(websocket: WebSocket) -> None:
        if accepts:
            await websocket.accept()
        async with own.throttle("somebody", timeout=0):
            await (websocket.close() if accepts else websocket.accept())

    if limited:
        site.limiter.limit("9/minute")(speak)
    assert Handshake("/own", denial=denial).through(site).sent[0]["type"] == "websocket.accept"
    refused = Handshake("/own", denial=denial).through(site)
    if accepts or not denial:
        assert refused.kinds == ["accept"] * accepts + ["close"]
        assert refused.sent[-1]["code"] == 1008
    else:
        assert refused.kinds == ["http.response.start", "http.response.body"]
        assert refused.sent[0]["status"] == 429
        assert b'"own";r=0' in dict(refused.sent[0]["headers"])[b"ratelimit"]
