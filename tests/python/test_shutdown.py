"""A normal stop of each server on a real Redis: what the workers have leased and not spent goes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi import FastAPI
from flask import Flask

import overlimit.fastapi
import overlimit.flask
import overlimit.wsgi
from overlimit import Limiter, RedisStore, SharedMemoryStore
from overlimit.asgi import LifespanMiddleware, RateLimitMiddleware
from servers.gunicorn import Gunicorn
from servers.http_clients import Clients
from servers.patience import PATIENCE
from servers.web_server import AsgiServer

LIMIT = 100_000
REQUESTS = 60

ASGI_APP = """
import os
from overlimit.asgi import RateLimitMiddleware

async def without_lifespan(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})

app = RateLimitMiddleware(
    without_lifespan, limits="100000/day", exempt=["/health"], store=os.environ["STORE"]
)
"""
FASTAPI_APP = """
import os
from fastapi import FastAPI
from overlimit.fastapi import RateLimit

app = FastAPI()
limiter = RateLimit(app, store=os.environ["STORE"])
app.get("/health")(lambda: "up")

@app.get("/")
@limiter.limit("100000/day")
def index():
    return "hello"
"""
DJANGO_APP = """
import os
from django.conf import settings
settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF="served", SECRET_KEY="none", OVERLIMIT={"STORE": os.environ["STORE"]}
)
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path
from overlimit.asgi import LifespanMiddleware
from overlimit.django import rate_limit

@rate_limit("100000/day")
def index(request):
    return HttpResponse("hello")

urlpatterns = [path("health", lambda request: HttpResponse("up")), path("", index)]
bare = get_asgi_application()
app = LifespanMiddleware(bare)
"""
FLASK_APP = """
import os
from flask import Flask
from overlimit.flask import RateLimit

app = Flask("served")
limiter = RateLimit(app, store=os.environ["STORE"])
app.get("/health")(lambda: "up")

@app.get("/")
@limiter.limit("100000/day")
def index():
    return "hello"
"""


_NAMES = {ASGI_APP: "asgi", FASTAPI_APP: "fastapi", DJANGO_APP: "django", FLASK_APP: "flask"}


def counted(redis_server, prefix):
    """Return how many units all keys of a prefix count together."""
    client, total = redis_server.client(), 0
    store = RedisStore(redis_server.unix_url(), prefix=prefix, timeout=PATIENCE)
    for key in client.scan_iter(f"{prefix}1:*"):
        _, policy, identifier = key.decode().split(":", 2)
        limiter = Limiter(f"{LIMIT}/day", name=policy, store=store)
        total += LIMIT - limiter.peek(identifier, cost=0).remaining
    return total


def started(server, app, directory: Path, environment):
    options = {"health": "/health", "log": directory / "log", "environment": environment}
    if server in ("sync", "gthread"):
        more = f"--worker-class {server}"
        return Gunicorn(app, directory, workers=2, more=more, **options)
    return AsgiServer(server, app, directory, workers=2, **options)


@pytest.mark.check
@pytest.mark.parametrize(
    ("server", "source", "app", "left"),
    [
        ("uvicorn", ASGI_APP, "app", 0),
        ("uvicorn", FASTAPI_APP, "app", 0),
        ("uvicorn", DJANGO_APP, "app", 0),
        ("uvicorn", DJANGO_APP, "bare", 1),
        ("hypercorn", ASGI_APP, "app", 0),
        ("hypercorn", DJANGO_APP, "bare", 0),
        ("gunicorn", FASTAPI_APP, "app", 0),
        ("gunicorn", DJANGO_APP, "bare", 1),
        ("daphne", DJANGO_APP, "bare", 0),
        ("sync", FLASK_APP, "app", 0),
        ("gthread", FLASK_APP, "app", 0),
    ],
    ids=lambda each: _NAMES.get(each, str(each)),
)
def test_a_stop_gives_back_what_is_leased(redis_server, prefix, tmp_path, server, source, app, left):
    (tmp_path / "served.py").write_text(source)
    store = f"{redis_server.unix_url()}&prefix={prefix}&timeout={PATIENCE}&lease=10"
    running = started(server, f"served:{app}", tmp_path, {"STORE": store})
    try:
        clients = Clients(running.port)
        assert clients.statuses("/", REQUESTS) == {200: REQUESTS}
        clients.close()
        held = counted(redis_server, prefix) - REQUESTS
        assert 0 < held < 1000
    finally:
        running.stop()
    assert counted(redis_server, prefix) - REQUESTS == held * left
    assert "Traceback" not in running.log.read_text()


async def lifespan_of(app, *messages):
    """Run the lifespan of an app that is sent these messages, and return what it sent."""
    waiting, sent = list(messages), []

    async def receive():
        return {"type": f"lifespan.{waiting.pop(0)}"}

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert not waiting
    return sent


def test_an_app_without_a_lifespan_is_left_alone_where_nothing_is_leased(monkeypatch):
    monkeypatch.setattr("overlimit.http.asgi.lifespan.leases_anywhere", lambda: False)

    async def app(scope, receive, send):
        raise ValueError("no lifespan")

    with pytest.raises(ValueError, match="no lifespan"):
        asyncio.run(lifespan_of(RateLimitMiddleware(app, limits="1/minute")))


@pytest.mark.parametrize("receives", [False, True])
def test_an_app_without_a_lifespan_is_given_one_where_something_is_leased(redis_server, prefix, receives):
    store = RedisStore(redis_server.unix_url(), prefix=prefix, timeout=PATIENCE, lease=10)
    limiter = Limiter(f"{LIMIT}/day", name="own", store=store)
    while limiter.stats()["held"] == 0:
        limiter.hit("a")

    async def app(scope, receive, send):
        if receives:
            await receive()
        raise ValueError("no lifespan")

    sent = asyncio.run(lifespan_of(LifespanMiddleware(app), "startup", "shutdown"))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert limiter.stats()["held"] == limiter.stats()["lapsed"] == 0
    assert limiter.stats()["returned"] > 0
    assert limiter.hit("a"), "a store that was closed goes on"


def test_a_start_that_fails_stays_one(redis_server, prefix):
    store = RedisStore(redis_server.unix_url(), prefix=prefix, lease=10)

    async def app(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        raise LookupError("no database")

    with pytest.raises(LookupError, match="no database"):
        asyncio.run(lifespan_of(LifespanMiddleware(app), "startup"))
    store.close()


@pytest.mark.usefixtures("shared_memory")
def test_every_store_can_be_closed_and_goes_on(prefix):
    shared = SharedMemoryStore(prefix)
    try:
        limiter = Limiter("5/minute", name="own", store=shared)
        limiter.hit("a")
        shared.close()
        assert limiter.hit("a").remaining == 3
    finally:
        shared.unlink()


def test_every_adapter_shows_its_store_and_closes_it(redis_server, prefix):
    store = RedisStore(redis_server.unix_url(), prefix=prefix, timeout=PATIENCE, lease=10)
    flask, fastapi, others = Flask("site"), FastAPI(), [Flask("one"), Flask("two")]
    adapters = [
        overlimit.flask.RateLimit(flask, store=store),
        overlimit.fastapi.RateLimit(fastapi, store=store),
        overlimit.wsgi.RateLimitMiddleware(flask, limits="1/minute", store=store),
        RateLimitMiddleware(FastAPI(), limits="1/minute", store=store),
    ]
    limiter = Limiter(f"{LIMIT}/day", name="own", store=store)
    for adapter in adapters:
        assert adapter.store is store
        while limiter.stats()["held"] == 0:
            limiter.hit("a")
        adapter.close()
        assert limiter.stats()["held"] == 0
    on_two = overlimit.flask.RateLimit()
    with pytest.raises(RuntimeError, match=r"no app yet"):
        on_two.store  # noqa: B018
    for app in others:
        on_two.init_app(app)
    with pytest.raises(RuntimeError, match="different stores"):
        on_two.store  # noqa: B018
    with others[0].app_context():
        assert on_two.store is not store
