"""A Quart app behind a real server, with two processes on one store."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from overlimit import SharedMemoryStore
from servers.http_clients import Clients
from servers.web_server import AsgiServer

APP = """
import os
from quart import Quart
from overlimit.quart import RateLimit

app = Quart(__name__)
limiter = RateLimit(app, application_limits="1000/minute", store=os.environ["OVERLIMIT_STORE"])

@app.get("/health")
@limiter.exempt
async def health():
    return "ok"

@app.get("/awaited")
@limiter.limit("12/hour", algorithm="fixed_window")
async def awaited():
    return "ok"

@app.get("/called")
@limiter.limit("12/hour", algorithm="fixed_window")
def called():
    return "ok"
"""


@pytest.fixture(params=["hypercorn", "uvicorn"])
def clients(request, tmp_path, redis_server) -> Iterator[Clients]:
    (tmp_path / "shop.py").write_text(APP)
    name = f"test-{secrets.token_hex(8)}"
    urls = {"hypercorn": f"{redis_server.unix_url()}&timeout=10", "uvicorn": f"shm://{name}"}
    environment = {"OVERLIMIT_STORE": urls[request.param]}
    server = AsgiServer(request.param, "shop:app", tmp_path, environment=environment)
    clients = Clients(server.port)
    try:
        yield clients
    finally:
        clients.close()
        server.stop()
        if request.param == "uvicorn":
            SharedMemoryStore(name).unlink()


def test_views_on_the_loop_and_in_threads_are_limited_exactly(clients):
    for path in ("/awaited", "/called"):
        assert clients.statuses(path, 24) == {200: 12, 429: 12}
        refusal = clients.ask(path)
        assert refusal.headers["RateLimit"].startswith(f'"{path[1:]}";r=0;t=')
        assert 1 <= int(refusal.headers["Retry-After"]) <= 3601
