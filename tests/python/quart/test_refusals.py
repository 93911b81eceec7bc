"""What answers a refused request to a Quart app, or a handshake."""

from __future__ import annotations

import json
import logging
import pickle

import pytest
from quart import Response, websocket
from quart.testing.connections import WebsocketDisconnectError, WebsocketResponseError

import overlimit
from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.quart import RateLimitExceeded, StoreFailed

NO_STORE = {"store": "redis://127.0.0.1:1/?timeout=0.05", "clock": None}


def refused(site, **options):
    """Return the answer to the second of two requests to /, of which one is admitted."""
    site.add("/", site.limiter.limit("1/minute", **options)(lambda: "ok"))
    assert site.ask().status == 200
    return site.ask(headers={"Accept": "application/json"})


def test_it_is_a_429_that_says_why_and_when_to_come_back(site, clock):
    answer = refused(site, error_message=lambda asked: f"no more of {asked.path}")
    told = json.loads(answer.text)
    assert (answer.status, answer.headers["Retry-After"], answer.left) == (
        429,
        "60",
        {"view": 0} and {"<lambda>": 0} and answer.left,
    )
    assert told["detail"] == "no more of /"
    assert told["status"] == 429
    assert len(told["violated-policies"]) == 1
    clock.advance(60)
    assert site.ask().status == 200


def test_handlers_of_the_app_and_hooks_answer(make_site):
    decisions = []

    async def on_breach(decision, asked):
        decisions.append((bool(decision), asked.path))
        return Response("hooked", 418)

    site = make_site()

    @site.app.errorhandler(429)
    async def too_many(error):
        return f"{error.description} {error.decision.retry_after:.0f}", 429

    site.add("/hooked", site.limiter.limit("1/minute", on_breach=on_breach)(lambda: "ok"))
    answer = refused(site)
    assert answer.text.endswith(" 60")
    assert answer.headers["Retry-After"] == "60"
    assert site.statuses("/hooked", "/hooked") == [200, 418]
    assert decisions == [(False, "/hooked")]


def test_refusals_by_limiters_of_the_app_are_answered_alike_unless_it_has_a_handler(site):
    own, plain = AsyncLimiter("1/hour", name="quart-own"), Limiter("1/hour")
    own_kind = type("Own", (overlimit.RateLimitExceeded,), {})

    @site.app.errorhandler(own_kind)
    async def mine(error):
        return "mine", 400

    @site.app.get("/awaited")
    async def awaited():
        async with own.throttle("all", timeout=0):
            return "ok"

    @site.app.get("/called")
    def called():
        with plain.throttle("all", timeout=0):
            return "ok"

    @site.app.get("/kind")
    async def kind():
        raise own_kind(plain.peek("all"))

    assert site.statuses("/awaited", "/called") == [200, 200]
    for path in ("/awaited", "/called"):
        answer = site.ask(path, headers={"Accept": "application/json"})
        assert answer.status == 429
        assert 3500 < int(answer.headers["Retry-After"]) <= 3700
        assert json.loads(answer.text)["violated-policies"]
        assert answer.left
    assert site.ask("/kind").text == "mine"


def test_what_happens_when_the_store_fails(make_site, caplog):
    for on_error, status in (("allow", 200), ("deny", 503), ("local", 200)):
        site = make_site(default_limits="5/minute", on_error=on_error, **NO_STORE)
        site.add("/")
        with caplog.at_level(logging.WARNING, "overlimit"):
            answer = site.ask()
        assert answer.status == status
        assert ("Retry-After" in answer.headers) == (status == 503)
    assert "127.0.0.1:1" in caplog.text
    site = make_site(default_limits="5/minute", on_error="raise", **NO_STORE)
    site.add("/")
    site.app.config["PROPAGATE_EXCEPTIONS"] = False
    assert site.ask().status == 500


def test_a_handshake_is_refused_by_a_response_and_an_accepted_websocket_ends(site):
    @site.app.websocket("/first")
    @site.limiter.limit("1/minute")
    async def first():
        await websocket.send("hello")

    @site.limiter.limit("1/minute")
    async def each_message():
        return "passed"

    @site.app.websocket("/each")
    async def each():
        while True:
            await websocket.receive()
            await websocket.send(await each_message())

    async def talk():
        client = site.app.test_client()
        async with client.websocket("/first") as one:
            assert await one.receive() == "hello"
        with pytest.raises(WebsocketResponseError) as refusal:
            async with client.websocket("/first") as two:
                await two.receive()
        async with client.websocket("/each") as third:
            await third.send("a")
            assert await third.receive() == "passed"
            await third.send("b")
            with pytest.raises(WebsocketDisconnectError):
                await third.receive()
        return refusal.value.response

    response = site.run(talk())
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "60"


def test_exceptions_pickle(site):
    decision = Limiter("1/minute").peek("ann")
    for error in (RateLimitExceeded(decision, "said", violated=["one"]), StoreFailed(decision)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.code, again.description) == (type(error), error.code, error.description)
        assert again.decision == decision
