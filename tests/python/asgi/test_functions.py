"""Functions of the app may be coroutine functions, of the scope or without parameters."""

from __future__ import annotations

import asyncio
import logging

import pytest

from asgi_sites import HELLO
from overlimit.asgi import RateLimitMiddleware, by_address


def header(scope, name):
    return dict(scope["headers"]).get(name.encode(), b"").decode()


def test_each_kind_of_function_is_awaited(make_site):
    async def limits(scope):
        await asyncio.sleep(0)
        return "" if scope["path"] == "/free" else "6/minute"

    async def identifiers():
        return "everybody"

    async def cost(scope):
        await asyncio.sleep(0)
        return int(header(scope, "x-cost") or 1)

    async def deduct_when(response, scope):
        return response.status_code != 404

    async def exempt(scope):
        return scope["path"] == "/health"

    async def on_breach(decision, scope):
        async def answer(scope, receive, send):
            await send({"type": "http.response.start", "status": 418, "headers": []})
            await send({"type": "http.response.body", "body": decision.identifier.encode()})

        return answer

    site = make_site(
        limits=limits,
        identifiers=identifiers,
        cost=cost,
        deduct_when=deduct_when,
        exempt=exempt,
        on_breach=on_breach,
    )
    assert site.statuses("/free", 9) + site.statuses("/health", 9) == [200] * 18
    assert site.statuses("/", 9, headers={"X-Status": "404"}) == [404] * 9
    assert site.statuses("/", 3, headers={"X-Cost": "2"}) == [200] * 3
    refusal = site.ask(ip="192.0.2.99")
    assert (refusal.status_code, refusal.text) == (418, "everybody")
    assert "RateLimit" in refusal.headers


@pytest.mark.every_store
def test_a_function_is_awaited_once_a_request_however_many_limits_ask_it(make_site):
    asked = []

    async def identifiers(scope):
        asked.append(scope["path"])
        return [header(scope, "x-key"), "all"]

    site = make_site(
        limits="5/minute; 9/hour", global_limits="9/minute", identifiers=[identifiers, by_address]
    )
    keys = [{"X-Key": key} for key in ("a", "b", "a")]
    assert [site.ask(headers=key).status_code for key in keys] == [200] * 3
    assert asked == ["/"] * 3


def test_what_differs_in_each_request_is_awaited_in_each(make_site):
    async def limits(scope):
        return header(scope, "x-limits")

    site = make_site(limits=limits, identifiers=lambda: "all")
    sent = ["1/minute", "3/minute", "3/minute", "1/minute", "9/hour"]
    assert [site.ask(headers={"X-Limits": each}).status_code for each in sent] == [200, 200, 200, 429, 200]


@pytest.mark.parametrize("option", ["limits", "identifiers", "cost", "exempt", "deduct_when", "on_breach"])
def test_a_coroutine_function_that_fails_fails_the_request_and_no_other(make_site, option):
    asked = []

    async def fails(*given):
        asked.append(given)
        if len(asked) == 1:
            raise LookupError("it failed")
        return {"limits": "1/minute", "cost": 1, "exempt": False, "identifiers": "b"}.get(option)

    site = make_site(**{"limits": "0/minute" if option == "on_breach" else "1/minute", option: fails})
    assert site.ask().status_code == 500
    assert site.ask().status_code == (429 if option in ("on_breach", "deduct_when") else 200)


def test_what_a_coroutine_function_returns_is_checked(make_site, caplog):
    async def limits():
        return None

    async def cost():
        return "2"

    caplog.set_level(logging.ERROR)
    assert make_site(limits=limits).ask().status_code == 500
    assert make_site(limits="1/minute", cost=cost).ask().status_code == 500


class Called:
    async def __call__(self, scope):
        return "all"


def test_an_object_that_is_called_may_be_awaited_too(make_site):
    site = make_site(limits="1/minute", identifiers=Called())
    assert site.statuses() + site.statuses(ip="192.0.2.99") == [200, 429]


async def takes_too_much(scope, more):
    return "1/minute"


@pytest.mark.parametrize("option", ["limits", "identifiers", "cost", "exempt"])
def test_a_coroutine_function_that_cannot_be_called_is_an_error_when_it_is_set_up(option):
    with pytest.raises(TypeError, match=r"takes_too_much\(\) cannot be called like that"):
        RateLimitMiddleware(HELLO, **{"limits": "1/s", option: takes_too_much})


def test_cancelling_while_a_function_is_awaited_charges_nothing(make_site):
    waits = [True, False]

    async def cost():
        if waits.pop(0):
            await asyncio.Event().wait()
        return 1

    site = make_site(limits="1/minute", cost=cost)

    async def cancelled():
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 5000)}
        task = asyncio.create_task(site.middleware(scope, None, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    site.run(cancelled())
    assert site.ask().status_code == 200
