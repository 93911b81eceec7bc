"""`RateLimitMiddleware` around apps of Bottle, Falcon and Pyramid: docs/reference/middleware.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.gunicorn import Gunicorn
from servers.http_clients import Clients

BOTTLE = """
from bottle import Bottle, request

site = Bottle()


@site.get("/search")
def search():
    return str(request.environ["overlimit.decision"].remaining)


@site.get("/login")
def login():
    return "no"
"""

FALCON = """
import falcon


class Search:
    def on_get(self, request, response):
        response.text = str(request.env["overlimit.decision"].remaining)


class Login:
    def on_get(self, request, response):
        response.text = "no"


site = falcon.App()
site.add_route("/search", Search())
site.add_route("/login", Login())
"""

PYRAMID = """
from pyramid.config import Configurator
from pyramid.response import Response


def search(request):
    return Response(str(request.environ["overlimit.decision"].remaining))


def login(request):
    return Response("no")


with Configurator() as config:
    for view in (search, login):
        config.add_route(view.__name__, "/" + view.__name__)
        config.add_view(view, route_name=view.__name__)
    site = config.make_wsgi_app()
"""

MIDDLEWARE = """
import os

from overlimit.wsgi import RateLimitMiddleware

app = RateLimitMiddleware(
    site,
    limits="4/hour",
    routes={"/login": "5/hour"},
    exempt=["/health"],
    deduct_when=lambda response: response.status_code != 404,
    store=os.environ["STORE"],
    key_prefix=os.environ["PREFIX"],
    on_error="raise",
)


def served(environ, start_response):
    if environ["PATH_INFO"] == "/up":
        start_response("200 OK", [])
        return []
    return app(environ, start_response)
"""


@pytest.fixture(params=[BOTTLE, FALCON, PYRAMID], ids=["bottle", "falcon", "pyramid"])
def clients(request, tmp_path, redis_server, prefix) -> Iterator[Clients]:
    (tmp_path / "served.py").write_text(request.param + MIDDLEWARE)
    environment = {"STORE": f"{redis_server.unix_url()}&timeout=10", "PREFIX": prefix}
    log = tmp_path / "log"
    server = Gunicorn("served:served", tmp_path, health="/up", log=log, environment=environment, workers=2)
    try:
        clients = Clients(server.port)
        yield clients
        clients.close()
    finally:
        server.stop()


def test_an_app_is_limited_before_it_sees_a_request_and_after_it_has_answered(clients):
    missing = [clients.ask("/nowhere") for _ in range(6)]  # given back
    assert {answer.status for answer in missing} == {404}
    assert {answer.headers["RateLimit"].partition(";t")[0] for answer in missing} == {'"application";r=3'}
    unlimited = clients.ask("/health")
    assert (unlimited.status, unlimited.headers.get("RateLimit")) == (404, None)
    answers = [clients.ask("/search") for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 429]
    assert [answer.body for answer in answers[:4]] == [b"3", b"2", b"1", b"0"]
    assert [answer.headers["RateLimit"].partition(";t")[0] for answer in answers[3:]] == [
        '"application";r=0',
        '"application";r=0',
    ]
    assert int(answers[4].headers["Retry-After"]) > 3000
    assert clients.statuses("/login", 10, headers={"Connection": "close"}) == {200: 5, 429: 5}
