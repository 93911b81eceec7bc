"""The example under real servers: WSGI and ASGI, on every kind of store, with users and sessions."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest

from programs import finished
from servers.gunicorn import Gunicorn
from servers.http_clients import Answer, Clients
from servers.web_server import AsgiServer

pytestmark = pytest.mark.check

SHOP = Path(__file__).parents[3] / "examples" / "django_app"
SERVERS = [("gunicorn", "shm"), ("uvicorn", "memory"), ("daphne", "redis")]
USERS = (
    "from django.contrib.auth.models import User;"
    "[User.objects.create_user(name, password='right') for name in ('ann', 'ben')]"
)


def manage(environment: dict[str, str], *command: str) -> str:
    environment = {**environment, "PATH": os.environ["PATH"]}
    run = finished([sys.executable, "-W", "error", "manage.py", *command], cwd=SHOP, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a database with two users."""
    path = str(tmp_path_factory.mktemp("shop") / "db.sqlite3")
    manage({"SHOP_DATABASE": path}, "migrate", "--verbosity", "0")
    manage({"SHOP_DATABASE": path}, "shell", "-c", USERS)
    return path


@pytest.fixture(scope="module", params=SERVERS, ids="-".join)
def serve(
    request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Clients]]:
    """Return clients of a server that has just been started."""
    server, store = request.param
    folder = tmp_path_factory.mktemp("server")
    urls = {"memory": "memory://", "shm": f"shm://{folder}/counts"}
    if store == "shm":
        request.getfixturevalue("shared_memory")
    if store == "redis":
        redis = request.getfixturevalue("redis_server")
        urls["redis"] = f"{redis.tcp_url()}?timeout=10&prefix={server}-{folder.name}"
    environment = {"OVERLIMIT_STORE": urls[store], "SHOP_DATABASE": database}
    options = {"health": "/health", "log": folder / "log", "environment": environment}
    if server == "gunicorn":
        running = Gunicorn("shop.wsgi:application", SHOP, workers=2, **options)
    else:
        running = AsgiServer(server, "shop.asgi:application", SHOP, workers=1, **options)
    clients = Clients(running.port)
    yield clients
    clients.close()
    running.stop()
    assert "Traceback" not in (folder / "log").read_text()


def cookies_of(answer: Answer) -> dict[str, str]:
    found = SimpleCookie()
    for value in answer.headers.get_all("Set-Cookie") or ():
        found.load(value)
    return {name: morsel.value for name, morsel in found.items()}


def log_in(clients: Clients, name: str, password: str) -> Answer:
    page = clients.ask("/login/")
    token = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', page.body)[1].decode()
    fields = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    cookie = f"csrftoken={cookies_of(page)['csrftoken']}"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
    return clients.ask("/login/", method="POST", headers=headers, body=urlencode(fields).encode())


def test_a_view_is_limited_exactly_and_per_user(serve):
    session = cookies_of(log_in(serve, "ann", "right"))["sessionid"]
    started = time.monotonic()
    answers = serve.ask_often("/search", 60)
    windows = int(time.monotonic() - started) + 2
    passed = [each for each in answers if each.status == 200]
    assert {each.status for each in answers} == {200, 429}
    assert 10 <= len(passed) <= min(10 * windows, 40)
    shown = Counter(each.json["remaining"] for each in passed)
    assert len(passed) > 10 or max(shown.values()) == 1, "each once while nothing has come back"
    assert all("RateLimit" in each.headers for each in answers)
    assert all(int(each.headers["Retry-After"]) >= 1 for each in answers if each.status == 429)
    # A user who is logged in is somebody else than the address.
    of_ann = [serve.ask("/search", headers={"Cookie": f"sessionid={session}"}) for _ in range(3)]
    assert [each.status for each in of_ann] == [200] * 3


def test_only_guesses_of_a_password_count(serve):
    assert log_in(serve, "ben", "right").status == 302
    guesses = [log_in(serve, "ben", "wrong") for _ in range(4)]
    assert [each.status for each in guesses] == [200] * 3 + [429]
    assert guesses[3].json["detail"] == "Too many attempts to log in."
    assert log_in(serve, "ben", "right").status == 429


def test_costs_and_blocks_and_throttles(serve):
    assert [serve.ask("/report").status for _ in range(3)] == [200, 200, 429]
    assert [serve.ask("/comment").body[:5] for _ in range(3)] == [b"Thank", b"Thank", b"Pleas"]
    orders = [serve.ask("/api/orders", headers={"Accept": "application/json"}) for _ in range(4)]
    assert [each.status for each in orders] == [200, 200, 200, 429]
    assert 1 <= int(orders[3].headers["Retry-After"]) <= 62
    assert '"orders";r=0' in orders[3].headers["RateLimit"]


def test_many_at_once_are_never_more_than_the_limit(serve):
    statuses = serve.statuses("/", 150)
    assert set(statuses) == {200, 429}
    assert statuses[200] == 100


def test_the_checks_of_the_example_pass(database):
    assert "no issues" in manage({"SHOP_DATABASE": database}, "check")


def test_the_checks_name_what_is_wrong(database):
    environment = {"SHOP_DATABASE": database, "OVERLIMIT_STORE": "redi://localhost"}
    with pytest.raises(AssertionError, match=r"overlimit\.E001.*OVERLIMIT\['STORE'\]"):
        manage(environment, "check")
