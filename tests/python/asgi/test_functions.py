"""Functions of the app may be coroutine functions, of the scope or without parameters."""

from __future__ import annotations

import asyncio

import pytest

from asgi_sites import HELLO
from overlimit.asgi import RateLimitMiddleware


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
