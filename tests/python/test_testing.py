"""``overlimit.testing`` under web apps: limiters that an extension or a middleware makes follow, too."""

from __future__ import annotations

import pytest
from flask import Flask
from freezegun import freeze_time

from overlimit.flask import RateLimit, rate_limit
from overlimit.testing import fresh_counts, manual_time, python_time
from overlimit.wsgi import RateLimitMiddleware
from servers.patience import PATIENCE


def flask_app(url):
    app = Flask(__name__)
    RateLimit(app, default_limits="2/minute", store=url, key_prefix="app")
    app.add_url_rule("/", view_func=lambda: "hello")
    app.add_url_rule("/mail", "mail", rate_limit("1/hour")(lambda: "sent"))
    return app


def wsgi_app(url):
    app = Flask(__name__)
    for path in ("/", "/mail"):
        app.add_url_rule(path, path, lambda: "hello")
    routes = {"/mail": "1/hour"}
    app.wsgi_app = RateLimitMiddleware(
        app.wsgi_app, limits="2/minute", routes=routes, store=url, key_prefix="app"
    )
    return app


@pytest.fixture(params=["memory", "redis"])
def url(request, prefix):
    fresh_counts()
    if request.param == "memory":
        return "memory://"
    return f"{request.getfixturevalue('redis_server').unix_url()}&prefix={prefix}&timeout={PATIENCE}"


@pytest.mark.parametrize("make_app", [flask_app, wsgi_app])
def test_an_app_follows(url, make_app):
    client = make_app(url).test_client()
    assert client.get("/").status_code == 200  # in real time
    with manual_time(1_900_000_000) as clock:
        assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
        clock.advance(int(client.get("/").headers["Retry-After"]))
        assert client.get("/").status_code == 200
        assert [client.get("/mail").status_code for _ in range(2)] == [200, 429]
        clock.advance(3_700)
        assert client.get("/mail").status_code == 200


@pytest.mark.parametrize("make_app", [flask_app, wsgi_app])
def test_an_app_follows_what_has_replaced_time_time(url, make_app):
    client = make_app(url).test_client()
    with python_time(), freeze_time("2030-01-01") as frozen:
        assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
        frozen.tick(int(client.get("/").headers["Retry-After"]))
        assert client.get("/").status_code == 200


@pytest.mark.parametrize("make_app", [flask_app, wsgi_app])
@pytest.mark.parametrize("url", ["memory://", "sqlite://"])
def test_counts_of_an_app_are_forgotten(url, make_app):
    client = make_app(url).test_client()
    fresh_counts()  # those of the other app
    for _ in range(2):
        assert [client.get("/mail").status_code for _ in range(2)] == [200, 429]
        fresh_counts()
