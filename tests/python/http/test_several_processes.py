"""One warning for each process that counts for itself, whatever serves the app, and none for the only one."""

from __future__ import annotations

import re
import secrets

import pytest

from overlimit import SharedMemoryStore
from servers.http_clients import Clients
from servers.patience import eventually
from servers.web_server import WebServer

pytestmark = pytest.mark.check

WARNING = re.compile(
    r"^(\d+) .*(?:the other processes that serve it do|a forked process does) not share", re.MULTILINE
)

MAKING = """
import logging, os
logging.basicConfig(format="%(process)d %(message)s")
STORE = os.environ["STORE"]
"""
APPS = {
    "asgi": """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from overlimit.asgi import RateLimitMiddleware

routes = [Route("/", lambda request: PlainTextResponse(str(os.getpid())))]
app = RateLimitMiddleware(Starlette(routes=routes), limits="9999/minute", store=STORE)
""",
    "fastapi": """
from fastapi import FastAPI
from overlimit.fastapi import RateLimit

app = FastAPI()
limiter = RateLimit(app, default_limits="9999/minute", store=STORE)
app.get("/")(lambda: os.getpid())
""",
    "django": """
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("", lambda request: HttpResponse(os.getpid()))]
settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["overlimit.django.RateLimitMiddleware"],
    OVERLIMIT={"DEFAULT_LIMITS": "9999/minute", "STORE": STORE},
)
from django.core.asgi import get_asgi_application
app = get_asgi_application()
""",
    "flask": """
from flask import Flask
from overlimit.flask import RateLimit

app = Flask("shop")
RateLimit(app, default_limits="9999/minute", store=STORE)
app.get("/")(lambda: str(os.getpid()))
""",
    "wsgi": """
from overlimit.wsgi import RateLimitMiddleware

def hello(environ, start_response):
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]

app = RateLimitMiddleware(hello, limits="9999/minute", store=STORE)
""",
}
APPS["flask that has counted"] = APPS["flask"] + "app.test_client().get('/')"
UVICORN = "uvicorn served:app --port {port}"
HYPERCORN = "hypercorn {wsgi}served:app --bind 127.0.0.1:{port} --graceful-timeout 2"
GUNICORN = "gunicorn served:app --bind 127.0.0.1:{port} --graceful-timeout 2"
DAPHNE = "daphne served:app -b 127.0.0.1 -p {port}"
OF_ASGI = "--worker-class uvicorn_worker.UvicornWorker"
BY_ENVIRONMENT = {"WEB_CONCURRENCY": "2"}


@pytest.fixture
def serve(tmp_path, request, redis_server):
    """Return a function that serves an app, and returns the workers that answered and those that warned."""

    def served(command, app, workers, store="memory", **environment):
        (tmp_path / "served.py").write_text(MAKING + APPS[app])
        name = f"test-{secrets.token_hex(8)}"
        urls = {"memory": "memory://", "shm": f"shm://{name}", "redis": redis_server.tcp_url()}
        if store == "shm":
            request.getfixturevalue("shared_memory")
            request.addfinalizer(SharedMemoryStore(name).unlink)
        given = {"STORE": urls[store], **environment}
        command = command.replace("{wsgi}", "wsgi:" if app in ("flask", "wsgi") else "")
        server = WebServer(command, tmp_path, health="/", log=tmp_path / "log", environment=given)
        request.addfinalizer(server.stop)
        clients = Clients(server.port)
        request.addfinalizer(clients.close)
        met = set()

        def every_worker_has_answered():
            met.update(
                answer.body.decode() for answer in clients.ask_often("/", 32, headers={"Connection": "close"})
            )
            return len(met) >= workers

        eventually(every_worker_has_answered)
        return sorted(met), sorted(WARNING.findall((tmp_path / "log").read_text()))

    return served


@pytest.mark.parametrize(
    ("command", "app", "environment"),
    [
        (f"{UVICORN} --workers 2", "fastapi", {}),
        (UVICORN, "asgi", BY_ENVIRONMENT),
        (f"{HYPERCORN} --workers 2", "asgi", {}),
        (f"{GUNICORN} --workers 2 {OF_ASGI}", "django", {}),
        (f"{GUNICORN} --workers 2 --threads 2", "wsgi", {}),
        (f"{HYPERCORN} --workers 2", "flask", {}),
        (f"{GUNICORN} --workers 2 --preload", "flask that has counted", {}),
    ],
)
def test_each_of_several_workers_that_count_for_themselves_warns_once(serve, command, app, environment):
    workers, warned = serve(command, app, 2, **environment)
    assert len(workers) == 2
    assert warned == workers


@pytest.mark.parametrize(
    ("command", "app", "workers", "store", "environment"),
    [
        (f"{UVICORN} --reload", "fastapi", 1, "memory", BY_ENVIRONMENT),
        (f"{UVICORN} --interface wsgi", "flask", 1, "memory", {}),
        (f"{HYPERCORN} --workers 1", "flask", 1, "memory", {}),
        (f"{GUNICORN} --workers 1 {OF_ASGI}", "django", 1, "memory", {}),
        (DAPHNE, "django", 1, "memory", {}),
        (f"{UVICORN} --workers 2", "asgi", 2, "shm", {}),
        (f"{HYPERCORN} --workers 2", "fastapi", 2, "redis", {}),
    ],
)
def test_neither_the_only_worker_warns_nor_one_that_shares_its_counts(
    serve, command, app, workers, store, environment
):
    met, warned = serve(command, app, workers, store, **environment)
    assert (len(met), warned) == (workers, [])
