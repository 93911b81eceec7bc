"""examples/fastapi_app.py behind real servers, with several processes on one store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from servers.http_clients import Clients
from servers.web_server import AsgiServer, served_together

pytestmark = pytest.mark.check

EXAMPLE = Path(__file__).parents[3] / "examples" / "fastapi_app.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory, shared_memory) -> Iterator[AsgiServer]:
    directory: Path = tmp_path_factory.mktemp("served")
    (directory / EXAMPLE.name).write_text(EXAMPLE.read_text())
    with served_together("gunicorn", "fastapi_app:app", directory, None) as server:
        yield server


@pytest.fixture
def clients(server) -> Iterator[Clients]:
    clients = Clients(server.port)
    yield clients
    clients.close()


def test_path_functions_on_the_loop_and_in_threads_are_limited_exactly(clients):
    assert clients.statuses("/report", 24, method="POST") == {200: 12, 429: 12}
    refusal = clients.ask("/report", method="POST")
    assert refusal.json["status"] == "over"
    assert refusal.json["identifier"] == "ip:127.0.0.1"
    assert 1 <= int(refusal.headers["Retry-After"]) <= 62
    assert refusal.headers["RateLimit"].startswith('"report";r=0;t=')
    hellos = Counter(answer.status for answer in clients.ask_often("/hello", 50, headers={"X-User": "ann"}))
    assert hellos[200] >= 10
    assert hellos[429] >= 1


def test_a_router_limits_each_of_its_routes(clients):
    for path in ("/partners/prices", "/partners/stock"):
        assert clients.statuses(path, 10) == {200: 5, 429: 5}


def test_only_failures_count(clients):
    asked = [clients.ask("/login?password=open%20sesame", method="POST") for _ in range(20)]
    assert {answer.status for answer in asked} == {200}
    assert clients.statuses("/login?password=wrong", 6, method="POST") == {401: 3, 429: 3}


def test_a_websocket_is_refused_before_it_is_accepted(server):
    for _ in range(2):
        with connect(f"ws://127.0.0.1:{server.port}/talk") as websocket:
            assert websocket.response.headers["RateLimit"].startswith('"talk";r=')
            websocket.send("hi")
            assert websocket.recv(timeout=10) == "HI"
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{server.port}/talk")
    assert refused.value.response.status_code == 429
