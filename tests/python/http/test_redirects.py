"""A redirect, and a 304, by which caches update what they keep, has no fields of ours in any framework."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import FastAPI
from fastapi import Response as FastAPIResponse
from fastapi.testclient import TestClient
from flask import Flask
from flask import Response as FlaskResponse
from werkzeug.test import Client

from overlimit.asgi import RateLimitMiddleware as AsgiMiddleware
from overlimit.fastapi import RateLimit as FastAPIRateLimit
from overlimit.flask import RateLimit as FlaskRateLimit
from overlimit.wsgi import RateLimitMiddleware as WsgiMiddleware

LOCATION = {"Location": "/elsewhere"}


def of_flask(status):
    app = Flask(__name__)
    FlaskRateLimit(app, default_limits="5/minute", headers="both")
    app.add_url_rule("/", view_func=lambda: FlaskResponse(status=status, headers=LOCATION))
    answer = app.test_client().get("/")
    return answer.status_code, [*answer.headers.keys()]


def of_wsgi(status):
    def app(environ, start_response):
        start_response(f"{status} Said", [*LOCATION.items()])
        return []

    answer = Client(WsgiMiddleware(app, limits="5/minute", headers="both")).get("/")
    return answer.status_code, [*answer.headers.keys()]


def of_fastapi(status):
    app = FastAPI()
    limiter = FastAPIRateLimit(app, headers="both")

    @app.get("/")
    @limiter.limit("5/minute")
    def view():
        return FastAPIResponse(status_code=status, headers=LOCATION)

    with TestClient(app) as client:
        answer = client.get("/", follow_redirects=False)
    return answer.status_code, [*answer.headers]


def of_asgi(status):
    async def app(scope, receive, send):
        headers = [(b"location", b"/elsewhere")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
    limited = AsgiMiddleware(app, limits="5/minute", headers="both")
    asyncio.run(limited(scope, None, send))
    return sent[0]["status"], [name.decode() for name, _ in sent[0]["headers"]]


@pytest.mark.parametrize("ask", [of_flask, of_wsgi, of_fastapi, of_asgi])
@pytest.mark.parametrize("status", [200, 301, 302, 304, 308, 404])
def test_a_redirect_has_no_fields(ask, status):
    answered, names = ask(status)
    ours = [name for name in names if "ratelimit" in name.lower()]
    assert answered == status
    assert "location" in map(str.lower, names)
    assert len(ours) == (0 if 300 <= status < 400 else 5)
