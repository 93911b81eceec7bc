"""The middleware behind real servers, with several processes on one store, and with real websockets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from servers.http_clients import Clients
from servers.web_server import ASGI_SERVERS, AsgiServer, served_together

pytestmark = pytest.mark.check

APP = """
import asyncio
import os

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

from overlimit.asgi import RateLimitMiddleware


async def shout():
    for part in ("he", "llo"):
        yield part


async def endless():
    yield "begun"
    await asyncio.sleep(3600)


async def echo(websocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


def fail(request):
    raise LookupError


async def pays(response):
    return response.status_code < 500


routes = [
    Route("/health", lambda request: PlainTextResponse("up")),
    Route("/stream", lambda request: StreamingResponse(shout())),
    Route("/endless", lambda request: StreamingResponse(endless())),
    Route("/fail", fail),
    Route("/login", lambda request: PlainTextResponse("welcome"), methods=["GET", "POST"]),
    WebSocketRoute("/ws", echo),
    WebSocketRoute("/talk", echo),
]
app = RateLimitMiddleware(
    Starlette(routes=routes),
    limits="20/hour",
    routes={
        "/endless": "2/hour",
        "/login": "1/hour",
        "/stream": "6/hour",
        "/talk": "99/hour",
        "/ws": "3/hour",
    },
    message_limits="5/hour",
    exempt=["/health"],
    deduct_when=pays,
    store=os.environ["OVERLIMIT_STORE"],
    key_prefix=os.environ["OVERLIMIT_PREFIX"],
    on_error="raise",
)
"""

STORES = {"uvicorn": "redis", "hypercorn": "shm", "gunicorn": "redis"}


@pytest.fixture(params=sorted(ASGI_SERVERS.keys() - {"daphne"}), scope="module")
def server(request, tmp_path_factory, redis_server) -> Iterator[AsgiServer]:
    directory: Path = tmp_path_factory.mktemp("served")
    (directory / "served.py").write_text(APP)
    redis = redis_server if STORES[request.param] == "redis" else None
    if redis is None:
        request.getfixturevalue("shared_memory")
    with served_together(request.param, "served:app", directory, redis) as server:
        yield server


@pytest.fixture
def clients(server) -> Iterator[Clients]:
    clients = Clients(server.port)
    yield clients
    clients.close()


def test_all_processes_count_together(clients):
    assert clients.statuses("/stream", 18) == {200: 6, 429: 12}
    refusal = clients.ask("/stream")
    assert refusal.headers["RateLimit"].startswith('"stream";r=0;t=')
    assert 3000 < int(refusal.headers["Retry-After"]) <= 3720
    assert refusal.json["violated-policies"] == ["stream"]


def test_what_the_app_fails_to_answer_is_given_back(clients):
    assert clients.statuses("/fail", 30, headers={"Connection": "close"}) == {500: 30}
    missing = clients.statuses("/nowhere", 30)
    assert missing == {404: 20, 429: 10}


def test_a_client_that_leaves_stays_charged(server, clients):
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", server.port), 30) as leaving:
            leaving.sendall(b"GET /endless HTTP/1.1\r\nHost: site\r\n\r\n")
            assert b" 200 " in leaving.recv(1000)
    assert clients.ask("/endless").status == 429


def answer_to(port, target, method):
    """Send a request by hand, since clients would write its target anew, and return the answer."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        lines = (
            f"{method} {target} HTTP/1.1",
            "Host: site",
            "Connection: close",
            "Content-Length: 0",
            "",
            "",
        )
        connection.sendall("\r\n".join(lines).encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_no_way_to_write_a_path_leads_around_its_pattern(server):
    assert answer_to(server.port, "/login", "GET").endswith(b"welcome")
    spellings = [
        "/login",
        "/login/",
        "//login",
        "/login//",
        "/login?x=1",
        "/%6cogin",
        "/%6Cogin/",
        "/login%2F",
    ]
    spellings += ["/%2flogin", "/./login", "/x/../login", "/login;x=1", "/LOGIN", "/login%00", "/login%20"]
    spellings += ["http://site/login", f"http://127.0.0.1:{server.port}//login/"]
    answers = [
        answer_to(server.port, each, method) for each in spellings for method in ("GET", "POST", "HEAD")
    ]
    assert not any(b"welcome" in each or b" 200 " in each.partition(b"\r\n")[0] for each in answers)
    assert all(b" 429 " in each.partition(b"\r\n")[0] for each in answers[:15])


def test_a_handshake_is_refused_before_it_is_accepted(server):
    for left in (2, 1, 0):
        with connect(f"ws://127.0.0.1:{server.port}/ws") as websocket:
            assert websocket.response.headers["RateLimit"].startswith(f'"ws";r={left};t=')
    for _ in range(2):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{server.port}/ws")
        assert refused.value.response.status_code == 429
        assert refused.value.response.headers["RateLimit"].startswith('"ws";r=0;t=')
        assert int(refused.value.response.headers["Retry-After"]) > 1000


def test_a_message_too_many_closes_the_websocket(server):
    heard = []
    with connect(f"ws://127.0.0.1:{server.port}/talk") as websocket, contextlib.suppress(ConnectionClosed):
        for number in range(9):
            websocket.send(str(number))
            heard.append(websocket.recv(timeout=10))
    assert heard == [str(number) for number in range(5)]
    assert websocket.close_code == 1008
