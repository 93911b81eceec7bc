"""Requests that cost what they turned out to cost, and penalties: the same under each framework."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import fastapi
import pytest
from fastapi import FastAPI
from flask import Flask, request, stream_with_context
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from werkzeug.test import Client
from werkzeug.wrappers import Request

import overlimit.asgi
import overlimit.fastapi
import overlimit.flask
import overlimit.wsgi
from asgi_sites import AsgiSite
from memory_unless_marked import pytest_generate_tests, store
from overlimit import Penalty
from overlimit.http.deciding.ledger import RequestLedger
from settlements import (
    ESTIMATE,
    EVERYWHERE,
    LIMIT,
    REQUESTS,
    Answer,
    a_response_that_does_not_count_is_not_settled,
    actions,
    whoever_goes_over_is_locked_longer_each_time,
)

__all__ = ["pytest_generate_tests", "store"]


def counts(response):
    return response.status_code < 500


class WsgiSite(Client):
    """An app that werkzeug asks."""

    def ask(self, user="ann", **query):
        with self.get("/", query_string=query, headers={"X-User": user}) as response:
            response.get_data()
        return Answer.of(response.status_code, response.headers)


class HttpxSite(AsgiSite):
    """An app that httpx asks."""

    def ask(self, user="ann", **query):
        response = super().ask(params=query, headers={"X-User": user})
        return Answer.of(response.status_code, response.headers)


def flask_site(options, view_options):
    app = Flask("site", static_folder=None)
    limiter = overlimit.flask.RateLimit(app, **options)

    def spend():
        for name, *arguments in actions(request.args):
            getattr(limiter, name)(*arguments)

    def parts():
        yield "begun"
        spend()

    def view():
        if "stream" in request.args:
            return app.response_class(stream_with_context(parts()))
        spend()
        return "ok", int(request.args.get("status", 200))

    app.get("/")(limited(limiter, view_options)(view))
    return WsgiSite(app)


def flask_async_site(options, view_options):
    app = Flask("site", static_folder=None)
    limiter = overlimit.flask.RateLimit(app, **options)

    async def view():
        for name, *arguments in actions(request.args):
            await getattr(limiter, f"a{name}")(*arguments)
        return "ok", int(request.args.get("status", 200))

    app.get("/")(limited(limiter, view_options)(view))
    return WsgiSite(app)


def fastapi_site(options, view_options):
    app = FastAPI()
    limiter = overlimit.fastapi.RateLimit(app, **options)

    async def spend(query):
        for name, *arguments in actions(query):
            await getattr(limiter, f"a{name}")(*arguments)

    async def parts(query):
        yield "begun"
        await spend(query)

    async def view(asked: fastapi.Request):
        if "stream" in asked.query_params:
            return StreamingResponse(parts(asked.query_params))
        await spend(asked.query_params)
        return Response("ok", int(asked.query_params.get("status", 200)))

    app.get("/")(limited(limiter, view_options)(view))
    return HttpxSite(app)


def fastapi_thread_site(options, view_options):
    app = FastAPI()
    limiter = overlimit.fastapi.RateLimit(app, **options)

    def spend(query):
        for name, *arguments in actions(query):
            getattr(limiter, name)(*arguments)

    def parts(query):
        yield "begun"
        spend(query)

    def view(asked: fastapi.Request):
        if "stream" in asked.query_params:
            return StreamingResponse(parts(asked.query_params))
        spend(asked.query_params)
        return Response("ok", int(asked.query_params.get("status", 200)))

    app.get("/")(limited(limiter, view_options)(view))
    return HttpxSite(app)


def limited(limiter, view_options):
    """Return a decorator by these options, or one that does nothing if they have no limits."""
    return (lambda view: view) if view_options["value"] is None else limiter.limit(**view_options)


def within(middleware, app, options, view_options):
    """Put a middleware for each limit around an app."""
    limits = options.pop("application_limits", None)
    of_view = {name: value for name, value in view_options.items() if name not in ("value", "name")}
    inner = middleware(app, limits=view_options["value"], **options, **of_view)
    return inner if limits is None else middleware(inner, limits=limits, **options)


def asgi_site(options, view_options):
    async def spend(asked):
        for name, *arguments in actions(asked.query_params):
            await getattr(overlimit.asgi, f"a{name}")(asked.scope, *arguments)

    async def parts(asked):
        yield "begun"
        await spend(asked)

    async def view(asked):
        if "stream" in asked.query_params:
            return StreamingResponse(parts(asked))
        await spend(asked)
        return Response("ok", int(asked.query_params.get("status", 200)))

    app = Starlette(routes=[Route("/", view)])
    return HttpxSite(within(overlimit.asgi.RateLimitMiddleware, app, options, view_options))


def asgi_thread_site(options, view_options):
    def view(asked):
        for name, *arguments in actions(asked.query_params):
            getattr(overlimit.asgi, name)(asked.scope, *arguments)
        return Response("ok", int(asked.query_params.get("status", 200)))

    app = Starlette(routes=[Route("/", view)])
    return HttpxSite(within(overlimit.asgi.RateLimitMiddleware, app, options, view_options))


def wsgi_site(options, view_options):
    def spend(environ):
        for name, *arguments in actions(Request(environ).args):
            getattr(overlimit.wsgi, name)(environ, *arguments)

    def parts(environ):
        yield b"begun"
        spend(environ)

    def app(environ, start_response):
        query = Request(environ).args
        if "stream" not in query:
            try:
                spend(environ)
            except (RuntimeError, ValueError):
                query = {"status": "500"}
        start_response(f"{query.get('status', 200)} Said", [])
        return parts(environ) if "stream" in query else [b"ok"]

    return WsgiSite(within(overlimit.wsgi.RateLimitMiddleware, app, options, view_options))


SITES: Any = {
    "flask": flask_site,
    "flask async": flask_async_site,
    "fastapi": fastapi_site,
    "fastapi in a thread": fastapi_thread_site,
    "asgi": asgi_site,
    "asgi in a thread": asgi_thread_site,
    "wsgi": wsgi_site,
}
STREAMING = SITES.keys() - {"flask async", "asgi in a thread"}
REQUESTS_A_DAY = MappingProxyType({"application_limits": REQUESTS})
BY_USER = overlimit.wsgi.by_header("X-User")
EACH = pytest.mark.parametrize("kind", SITES)


@pytest.fixture
def make(store, clock):
    """Return a function that builds a site, and returns what asks it."""

    sites = ExitStack()

    def made(kind, options=REQUESTS_A_DAY, **more):
        given = {"store": store, "clock": clock, "algorithm": "fixed_window", "identifiers": BY_USER}
        view_options = {"value": LIMIT, "cost": ESTIMATE, "name": "tokens", **more}
        site = SITES[kind]({**given, **options}, view_options)
        sites.callback(getattr(site, "close", lambda: None))
        return site.ask

    with sites:
        yield made


@pytest.mark.every_store
@EACH
@pytest.mark.parametrize("happens", EVERYWHERE, ids=lambda each: each.__name__)
def test_a_request_costs_what_its_view_says(make, kind, happens):
    happens(make(kind))


@pytest.mark.parametrize("kind", sorted(STREAMING))
@pytest.mark.parametrize("happens", EVERYWHERE, ids=lambda each: each.__name__)
def test_a_stream_says_what_it_has_cost_when_it_has_ended(make, kind, happens):
    happens(make(kind), stream=1)


@pytest.mark.parametrize("kind", sorted(STREAMING))
def test_what_does_not_count_by_the_response_is_not_settled(make, kind):
    a_response_that_does_not_count_is_not_settled(make(kind, deduct_when=counts))


@EACH
def test_a_wrong_cost_is_an_error_and_the_estimate_stays(make, kind):
    ask = make(kind)
    assert ask(used=-1).status == 500
    assert ask().left == {1000: 800, 50: 48}


@EACH
def test_without_a_cost_nothing_can_be_settled_and_all_be_given_back(make, kind):
    ask = make(kind, cost=None)
    assert ask(used=5).status == 500
    ask(refund="before")
    assert ask().left == {1000: 998, 50: 48}


@pytest.mark.parametrize("kind", [each for each in SITES if each.startswith(("flask", "fastapi"))])
@pytest.mark.parametrize(("cost", "left"), [(None, {50: 48}), (1, {50: 44})])
def test_shared_code_may_settle_in_a_view_without_limits_of_its_own(make, kind, cost, left):
    options = {"application_limits": REQUESTS, "application_limits_cost": cost}
    ask = make(kind, options, value=None)
    assert ask(used=5).status == 200
    assert ask().left == left


@EACH
@pytest.mark.parametrize("of", ["limit", "all"])
def test_a_penalty_locks_longer_each_time(make, kind, of, at):
    penalty = {"penalty": Penalty([100, 1000])}
    options, own = ({}, penalty) if of == "limit" else (penalty, {})
    whoever_goes_over_is_locked_longer_each_time(make(kind, options, value="2/minute", cost=1, **own), at)


def kept_by_cycles(ask):
    """Return how many ledgers of 20 requests only the garbage collector would find."""
    ask()
    gc.collect()
    gc.disable()
    try:
        before = ledgers()
        for _ in range(20):
            ask()
        return ledgers() - before
    finally:
        gc.enable()


def ledgers():
    return sum(type(each) is RequestLedger for each in gc.get_objects())


@pytest.mark.parametrize("kind", ["asgi", "fastapi"])
def test_a_request_of_asgi_leaves_nothing_to_the_garbage_collector(make, kind):
    assert kept_by_cycles(make(kind)) <= 1


def test_a_request_of_wsgi_leaves_nothing_to_the_garbage_collector():
    def app(environ, start_response):
        overlimit.wsgi.settle(environ, 5)
        start_response("200 OK", [])
        return [b"ok"]

    limited = overlimit.wsgi.RateLimitMiddleware(app, limits=LIMIT, cost=1)

    def ask():
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.1"}
        assert limited(environ, lambda *_: print) == [b"ok"]

    assert kept_by_cycles(ask) <= 1
