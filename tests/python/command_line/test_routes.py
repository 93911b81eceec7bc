"""``overlimit routes``, the list of routes and limits: docs/reference/command_line.md."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .test_commands import printed, run

SHOP = """
from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route
from overlimit.asgi import RateLimitMiddleware
from overlimit.fastapi import RateLimit
import flask
import overlimit.flask
import overlimit.wsgi

app = FastAPI()
limiter = RateLimit(app, store="redis://:secret@localhost:6379/0", key_prefix="shop")
limits_of = lambda request: 1 / 0

@app.get("/search")
@limiter.limit("5/second; 100/hour", cost=limits_of)
def search(): ...

@app.post("/search")
@limiter.limit(limits_of)
def change(): ...

@app.api_route("/orders/{number}", methods=["GET", "DELETE"])
def order(number: int): ...

partners = APIRouter(prefix="/partners", dependencies=[Depends(limiter.dependency("9/minute"))])
partners.get("/prices")(order)
app.include_router(partners)

inner, own = FastAPI(), FastAPI()
inner.get("/items")(limiter.limit("3/minute")(lambda: 1))
RateLimit(own, default_limits="7/minute")
own.get("/here")(order)
app.mount("/v1", inner)
app.mount("/v2", inner)
app.mount("/own", own)

async def plain(scope, receive, send): ...

async def login(request): ...
async def health(request): ...

guards = dict(limits="9/minute", routes={"POST /login": "5/minute", "/up/*": "3/minute"}, exempt=["/health"])
routes = [
    Route("/login", login, methods=["POST"]),
    Route("/health", health),
    Mount("/up", routes=[Route("/{name}", health)]),
    Host("h.example", plain),
]
starlette = Starlette(routes=routes, middleware=[Middleware(RateLimitMiddleware, **guards)])
guarded = RateLimitMiddleware(plain, **guards)
def wsgi(environ, start_response): ...

guarded_wsgi = overlimit.wsgi.RateLimitMiddleware(wsgi, **guards)
flask_app = flask.Flask("shop")
flask_limiter = overlimit.flask.RateLimit(flask_app, default_limits="4/minute")
flask_app.add_url_rule("/a/<name>", "a", flask_limiter.limit("2/minute")(lambda name: name))
flask_app.add_url_rule("/b", "b", lambda: "b")
flask_app.add_url_rule("/c", "c", flask_limiter.exempt(lambda: "c"))
bare, astray = FastAPI(), FastAPI()
RateLimit(astray)
astray.get("/")(search)

def make():
    return starlette
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Return where the module ``shop`` is."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield str(tmp_path)
    sys.modules.pop("shop", None)


def listed(shop: str, app: str, *options: str) -> dict[tuple[str, str], tuple[bool, list[str]]]:
    """Return by path and method whether it is protected, and its limits."""
    entries = json.loads(printed("routes", f"shop:{app}", "--app-dir", shop, "--json", *options))
    return {
        (entry["rule"], method): (entry["protected"], [each["limit"] for each in entry["limits"]])
        for entry in entries
        for method in entry["methods"]
    }


def test_routes_of_fastapi_are_listed_with_all_their_limits_and_unprotected_ones_marked(shop):
    assert listed(shop, "app") == {
        ("/search", "GET"): (True, ["5-per-1s", "100-per-3600s"]),
        ("/search", "POST"): (True, [None]),
        ("/orders/{number}", "GET"): (False, []),
        ("/orders/{number}", "DELETE"): (False, []),
        ("/partners/prices", "GET"): (True, ["9-per-60s"]),
        ("/v1/items", "GET"): (True, ["3-per-60s"]),
        ("/v2/items", "GET"): (True, ["3-per-60s"]),
        ("/own/here", "GET"): (True, ["7-per-60s"]),
    }


def test_the_table_shows_stores_policies_and_functions_and_no_password(shop):
    text = printed("routes", "shop:app", "--app-dir", shop)
    first, second = text.splitlines()[:2]
    assert first.startswith(
        "Store of RateLimit 1: redis://localhost:6379/0, key prefix shop, identifiers by_"
    )
    assert second.startswith("Store of RateLimit 2: memory://, identifiers by_")
    assert text.count(" store redis://localhost:6379/0") == 6
    assert text.count(" store memory://") == 1
    assert "secret" not in text
    assert "shop--route--shop.search--1 " in text
    assert "cost shop.<lambda>()" in text
    assert "limit is shop.<lambda>()" in text
    _, unprotected = text.rsplit("Unprotected (no limit can refuse a request):\n", 1)
    assert unprotected.split() == ["shop.order", "DELETE,GET", "/orders/{number}"]


@pytest.mark.parametrize(("app", "options"), [("starlette", ()), ("make", ("--factory",))])
def test_routes_of_starlette_are_listed_with_the_patterns_of_its_middleware(shop, app, options):
    assert listed(shop, app, *options) == {
        ("/login", "POST"): (True, ["5-per-60s"]),
        ("/health", "GET"): (False, []),
        ("/up/{name}", "GET"): (True, ["3-per-60s"]),
        ("h.example", "GET"): (True, ["9-per-60s"]),
    }


def test_routes_of_flask_are_listed_too_and_the_command_has_another_name(shop):
    assert listed(shop, "flask_app") == {
        ("/a/<name>", "GET"): (True, ["2-per-60s"]),
        ("/b", "GET"): (True, ["4-per-60s"]),
        ("/c", "GET"): (False, []),
    }
    words = ("shop:flask_app", "--app-dir", shop, "--json")
    assert printed("limits", "list", *words) == printed("routes", *words)


def test_patterns_are_listed_where_there_are_no_routes_to_find(shop):
    assert (
        listed(shop, "guarded")
        == listed(shop, "guarded_wsgi")
        == {
            ("/login", "POST"): (True, ["5-per-60s"]),
            ("/up/*", "ANY"): (True, ["3-per-60s"]),
            ("*", "ANY"): (True, ["9-per-60s"]),
        }
    )


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        (
            "shop:bare",
            1,
            "nothing limits this app: it has no RateLimit, and no RateLimitMiddleware (a Django",
        ),
        ("shop", 2, "name the app as module:app, such as main:app, not 'shop'"),
        ("shop:make", 2, "'shop:make' is a function, not an app: if it returns the app, add --factory"),
        ("shop:missing", 2, "the module 'shop' has no 'missing'"),
        ("shops:app", 2, "cannot import 'shops': ModuleNotFoundError: No module named 'shops'"),
        ("shop:order", 1, "nothing limits this app"),
        (
            "shop:astray",
            2,
            "a function of 'FastAPI' is limited by a RateLimit that this app does not have, but ",
        ),
    ],
)
def test_what_cannot_be_listed_is_said_in_a_line(shop, name, status, message):
    done = run("routes", name, "--app-dir", shop)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1


def test_the_module_is_looked_for_where_the_command_is_run(shop):
    command = [sys.executable, "-m", "overlimit", "routes", "shop:starlette"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=60, check=True)
    assert "POST-login" in done.stdout
