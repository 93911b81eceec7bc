"""Requests are charged in a replay where the router of an app leads them, whatever the app is made of."""

from __future__ import annotations

import itertools
import random
from contextlib import contextmanager

import numpy as np
import pytest

from overlimit import ManualClock, MemoryStore, Penalty
from overlimit.simulation import Events, replay

PEERS = ("192.0.2.1", "192.0.2.2")
PATHS = ("/", "/a", "/a/", "/b/1", "/b/22", "/b/z", "/p/", "/p/x", "/p/x/y%20z", "/v1/a", "/v2/a", "/v1/b/3")
PATHS += ("/c", "/sub/x", "/sub/nope", "/sub/own/x", "/raw/x/y", "/nowhere", "/7", "/7/x")
NUMBERS = itertools.count()
METHODS = ("GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "PUT")


def some_limits(rnd):
    return rnd.choice(("3/minute", "2/10s", "5/minute; 2/5s", "4/minute burst 6", "1/5s", "6/minute"))


def some_options(rnd):
    choices = {"default_limits": some_limits(rnd), "application_limits": "12/minute", "penalty": Penalty([4])}
    return {name: value for name, value in choices.items() if rnd.random() < 0.4}


def decorating(rnd, limit):
    """Return what gives a function no limit, one, or several, of random options."""
    own = [{"cost": 2}, {"methods": ["POST"]}, {"per_method": True}, {"override_defaults": False}]
    own += [{"penalty": Penalty(5)}, {"shadow": True}, {}, {}]

    def decorated(function, name=None):
        function.__name__ = function.__qualname__ = name or f"view_{next(NUMBERS)}"
        for _ in range(rnd.choice((0, 1, 1, 2))):
            function = limit(some_limits(rnd), **rnd.choice(own))(function)
        return function

    return decorated


@contextmanager
def flask(rnd, clock):
    from flask import Blueprint, Flask
    from flask.views import MethodView, View

    from overlimit.flask import RateLimit

    app = Flask("app")
    limiter = RateLimit(app, store=MemoryStore(), clock=clock, **some_options(rnd))
    other = RateLimit(app, store=MemoryStore(), clock=clock, application_limits="20/minute")
    view = decorating(rnd, limiter.limit)

    class Both(MethodView):
        def get(self):
            return "ok"

        post = view(lambda self: "ok")

    class Whole(View):
        dispatch_request = view(lambda self: "ok")

    class Each(MethodView):
        @view
        def dispatch_request(self):
            return super().dispatch_request()

        get = view(lambda self: "ok")

    twice = view(lambda: "ok")
    part = Blueprint("part", __name__)
    part.add_url_rule("/a", "a", twice, methods=["GET", "POST"])
    part.add_url_rule("/b/<int:n>", "b", view(lambda n: "ok"))
    rules = {"/a": twice, "/": view(lambda: "ok"), "/b/<int:n>": view(lambda n: "ok")}
    rules |= {"/b/<n>": view(lambda n: "ok"), "/p/<path:rest>": view(lambda rest: "ok")}
    rules |= {"/c": Both.as_view("both"), "/sub/x": other.exempt(lambda: "ok")}
    rules |= {"/a/": Whole.as_view("whole"), "/sub/nope": Each.as_view("each")}
    rules |= {"/raw/x/y": limiter.exempt(lambda: "ok")}
    for place, (rule, function) in enumerate(rules.items()):
        app.add_url_rule(rule, f"e{place}", function)
    app.register_blueprint(part, url_prefix="/v1")
    app.register_blueprint(part, url_prefix="/v2", name="again")
    client = app.test_client()

    def ask(method, path, peer):
        return client.open(path, method=method, environ_base={"REMOTE_ADDR": peer}).status_code

    yield limiter, ask


@contextmanager
def fastapi(rnd, clock):
    from fastapi import APIRouter, Depends, FastAPI
    from starlette.endpoints import HTTPEndpoint
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route
    from starlette.testclient import TestClient

    from overlimit.fastapi import RateLimit

    app, sub, apart = FastAPI(), FastAPI(), FastAPI()
    limiter = RateLimit(app, store=MemoryStore(), clock=clock, **some_options(rnd))
    own = RateLimit(apart, store=MemoryStore(), clock=clock, **some_options(rnd))
    view = decorating(rnd, limiter.limit)

    def answer():
        async def on_loop():
            return "ok"

        def in_thread():
            return "ok"

        return view(rnd.choice((on_loop, in_thread)))

    class Both(HTTPEndpoint):
        async def get(self, request):
            return PlainTextResponse("ok")

        async def post(self, request):
            return PlainTextResponse("ok")

        get, post = view(get, "get"), view(post, "post")

    part = APIRouter()
    part.api_route("/a", methods=["GET", "POST"])(answer())
    part.get("/b/{n:int}")(answer())
    paths = ["/", "/b/{n:int}", "/b/{n}", "/p/{rest:path}"]
    rnd.shuffle(paths)
    for path in paths:
        app.get(path)(answer())
    app.routes.insert(rnd.randrange(len(app.routes)), Route("/c", Both))
    app.include_router(part, prefix="/v1")
    app.include_router(part, prefix="/v2")
    app.include_router(part)
    apart.get("/x")(decorating(rnd, own.limit)(lambda: "ok"))
    sub.get("/x")(answer())
    sub.mount("/own", apart)
    app.mount("/sub", sub)
    app.routes.append(Mount("/raw", PlainTextResponse("ok")))
    app.get("/sub/nope")(answer())  # which no request comes to
    number = view(lambda n: "ok")
    number.__annotations__["n"] = int
    app.get("/{n}")(number)
    app.get("/{n}/{of}", dependencies=[Depends(number)])(answer())
    clients = {peer: TestClient(app, client=(peer, 1), follow_redirects=False) for peer in PEERS}
    yield limiter, lambda method, path, peer: clients[peer].request(method, path).status_code


@contextmanager
def django(rnd, clock):
    from adapters.of_django import OURS, configure

    configure()
    from django.http import HttpResponse
    from django.test import Client, override_settings
    from django.urls import include, path, re_path
    from django.utils.decorators import method_decorator
    from django.views import View

    from overlimit.django import get_limits, rate_limit

    view = decorating(rnd, rate_limit)

    def answer(name=None):
        return view(lambda request, **given: HttpResponse("ok"), name)

    class Listed(View):
        def dispatch(self, request):
            return HttpResponse("ok")

    for _ in range(2):
        several = [rate_limit(some_limits(rnd)) for _ in range(rnd.randrange(3))]
        Listed = method_decorator(several, name="dispatch")(Listed)

    alike = f"view_of_one_name_{rnd.random()}"
    part = [path("a", answer(alike)), path("b/<int:n>", answer(alike))]
    urls = [path("", answer()), path("a", answer(alike)), path("b/<int:n>", answer()), path("c", answer())]
    urls += [re_path("^b/(?P<n>[a-z]+)$", answer()), path("p/<path:rest>", answer(alike))]
    urls += [path("v1/", include(part)), path("v2/", include(part))]
    urls += [path("sub/x", Listed.as_view())]
    options = {name.upper(): value for name, value in some_options(rnd).items()}
    options |= {"STORE": MemoryStore(), "CLOCK": clock}
    client = Client()
    with override_settings(ROOT_URLCONF=tuple(urls), MIDDLEWARE=[OURS], OVERLIMIT=options):
        yield (
            get_limits(),
            lambda method, path, peer: client.generic(method, path, REMOTE_ADDR=peer).status_code,
        )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(more, marks=pytest.mark.check) for more in range(2, 6))]
)
@pytest.mark.parametrize("app", [flask, fastapi, django])
def test_a_replay_follows_the_routes_of_any_app(app, seed):
    rnd = random.Random(f"{app.__name__} {seed}")
    count, clock = 300, ManualClock(0.0)
    times = np.cumsum([rnd.choice((0, 0.1, 0.5)) for _ in range(count)]) + 1000
    peers, paths, methods = ([rnd.choice(among) for _ in range(count)] for among in (PEERS, PATHS, METHODS))
    with app(rnd, clock) as (limits, ask):
        told = replay(Events(times, {"ip": peers}, endpoint=paths, method=methods), limits)
        statuses = []
        for time, method, path, peer in zip(times.tolist(), methods, paths, peers, strict=True):
            clock.set(time)
            statuses.append(ask(method, path, peer))
    assert 500 not in statuses
    wrong = [k for k in range(count) if told.allowed[k] != (statuses[k] != 429)]
    assert not wrong, [(methods[k], paths[k], statuses[k]) for k in wrong]
    assert 10 < told.refused < count - 10
