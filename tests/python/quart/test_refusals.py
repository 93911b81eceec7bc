"""What answers a refused request to a Quart app, or a handshake."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import wraps

import pytest
from quart import Response, websocket
from quart.testing.connections import WebsocketDisconnectError, WebsocketResponseError

import overlimit
from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.quart import RateLimitExceeded


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
    site.add("/", site.limiter.limit("1/minute")(lambda: "ok"))
    assert site.ask().status == 200
    answer = site.ask()
    assert answer.text.endswith(" 60")
    assert answer.headers["Retry-After"] == "60"
    assert site.statuses("/hooked", "/hooked") == [200, 418]
    assert decisions == [(False, "/hooked")]


def test_a_refusal_that_a_view_has_caught_refuses_nothing_else(site):
    @site.limiter.limit("1/minute")
    async def mail():
        return "sent"

    @site.limiter.limit("1/minute", name="later")
    async def keep():
        return "kept"

    async def view():
        with suppress(RateLimitExceeded):
            return await mail()
        return await keep()

    site.add("/", view)
    assert [site.ask().text for _ in range(2)] == ["sent", "kept"]
    assert json.loads(site.ask().text)["violated-policies"] == ["later"]


def test_a_view_that_is_tried_again_stays_refused(site):
    @site.limiter.limit("1/minute")
    async def view():
        return "ok"

    async def trying():
        with suppress(RateLimitExceeded):
            return await view()
        return await view()

    site.add("/", wraps(view)(trying))
    assert site.statuses("/", "/") == [200, 429]


def test_limited_error_handlers_refuse(site):
    @site.app.errorhandler(404)
    @site.limiter.limit("1/minute", name="pages")
    async def not_found(error):
        return "no such page", 404

    @site.app.errorhandler(429)
    @site.limiter.limit("1/minute", name="refusals")
    async def too_many(error):
        return "wait", 429

    answers = [site.ask("/nowhere") for _ in range(3)]
    assert [(each.status, "Retry-After" in each.headers) for each in answers] == [
        (404, False),
        (429, True),
        (429, True),
    ]
    assert (answers[1].text, json.loads(answers[2].text)["violated-policies"]) == ("wait", ["refusals"])


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


def test_default_limits_hold_for_websockets(make_site):
    site = make_site(default_limits="1/minute")

    @site.app.websocket("/")
    async def greet():
        await websocket.send("hello")

    async def greeting():
        async with site.app.test_client().websocket("/") as opened:
            return await opened.receive()

    assert site.run(greeting()) == "hello"
    with pytest.raises(WebsocketResponseError):
        site.run(greeting())
