"""A Quart app behind a real server, with two processes on one store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.http_clients import Clients
from servers.web_server import served_together

pytestmark = pytest.mark.check

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


@pytest.fixture
def clients(tmp_path, redis_server) -> Iterator[Clients]:
    (tmp_path / "shop.py").write_text(APP)
    with served_together("hypercorn", "shop:app", tmp_path, redis_server) as server:
        clients = Clients(server.port)
        yield clients
        clients.close()


def test_views_on_the_loop_and_in_threads_are_limited_exactly(clients):
    for path in ("/awaited", "/called"):
        assert clients.statuses(path, 24) == {200: 12, 429: 12}
        refusal = clients.ask(path)
        assert refusal.headers["RateLimit"].startswith(f'"{path[1:]}";r=0;t=')
        assert 1 <= int(refusal.headers["Retry-After"]) <= 3601
