"""Clients of aiohttp, and those of httpx on trio and anyio."""

from __future__ import annotations

import asyncio
import pickle
import time

import aiohttp
import anyio
import httpx
import pytest
import trio

from overlimit import Limiter, RateLimitExceeded, SlidingLog
from overlimit.aio import AsyncLimiter
from overlimit.aiohttp import RateLimitExceeded as AiohttpRateLimitExceeded
from overlimit.aiohttp import ThrottledMiddleware, throttled
from overlimit.http import total_tokens
from overlimit.httpx import AsyncThrottledTransport
from servers.patience import PATIENCE
from servers.scripted_http import Scripted


def test_what_is_for_no_session_of_aiohttp_is_an_error():
    for make, said in (
        (lambda: ThrottledMiddleware(Limiter("5/hour")), "write AsyncLimiter"),
        (lambda: throttled("session", AsyncLimiter("5/hour")), "an aiohttp.ClientSession"),
    ):
        with pytest.raises(TypeError, match=said):
            make()


def test_its_error_can_be_pickled():
    error = AiohttpRateLimitExceeded(Limiter("5/hour").hit("a", cost=6))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.decision, str(again)) == (type(error), error.decision, str(error))
    assert isinstance(again, RateLimitExceeded)


def test_a_session_of_aiohttp_may_be_throttled_later_and_its_total_timeout_includes_the_turn(server):
    async def main():
        limiter = AsyncLimiter(SlidingLog(2, 3600))
        timeout = aiohttp.ClientTimeout(total=0.5)
        async with throttled(aiohttp.ClientSession(timeout=timeout), limiter) as session:
            server.answers = [Scripted(429, {"Retry-After": "0.01"})]
            async with session.get(server.url) as answer:
                assert await answer.text() == "ok"
            with pytest.raises(TimeoutError):
                await session.get(server.url)
        return await limiter.peek(server.host, cost=0)

    assert asyncio.run(main()).remaining == 0
    assert len(server.asked) == 2


@pytest.mark.parametrize("read", ["read", "readline", "iter_any", "iter_chunks", "close", "nothing"])
def test_what_is_read_of_a_response_of_aiohttp_in_any_way_is_settled(server, read):
    async def main():
        limiter, seen = AsyncLimiter("100/hour"), []
        session = throttled(
            aiohttp.ClientSession(), limiter, cost=50, settle=lambda each: seen.append(each.content) or 7
        )
        async with session:
            response = await session.get(server.url)
            if read.startswith("iter"):
                [_ async for _ in getattr(response.content, read)()]
            elif read.startswith("read"):
                assert await getattr(response.content, read)() == b"ok"
            elif read == "close":
                response.close()
            else:
                response.release()
            await asyncio.sleep(0)
            assert (await limiter.peek(server.host, cost=0)).remaining == 93
        return seen

    assert asyncio.run(main()) == [b"ok" if read[0] in "ri" else b""]


def run_on_trio(main):
    anyio.run(main, backend="trio")


@pytest.mark.parametrize("run", [anyio.run, trio.run, run_on_trio])
@pytest.mark.parametrize("store", ["memory", "redis"])
def test_an_async_client_waits_on_any_event_loop(run, store, server, request):
    place = request.getfixturevalue("redis_store") if store == "redis" else "memory://"
    limiter, tokens = (AsyncLimiter(SlidingLog(9, 0.3), name=name, store=place) for name in ("all", "tokens"))
    server.answers = [Scripted(429, {"Retry-After": "0.1"}), Scripted(body=b'{"usage": {"total_tokens": 2}}')]

    async def main():
        transport = AsyncThrottledTransport(
            limiter, budgets=[(tokens, "all", cost, total_tokens)], learn=True
        )
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=PATIENCE) as client:
            assert (await client.get(server.url)).status_code == 200
            began = time.monotonic()
            for _ in range(3):
                assert (await client.get(server.url)).status_code == 200
            assert time.monotonic() - began >= 0.15
            with pytest.raises(RateLimitExceeded, match="never"):
                await client.get(server.url, headers={"Cost": "10"})
        assert transport.stats()["learnt"][server.host]["number"] == 6

    def cost(request):
        return int(request.headers.get("Cost", 5))

    run(main)
    assert len(server.asked) == 5


def test_a_task_of_trio_that_is_cancelled_holds_nothing_and_others_wake(server):
    limiter = AsyncLimiter(SlidingLog(1, 0.5))

    async def main():
        transport = AsyncThrottledTransport(limiter)
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=PATIENCE) as client:
            await client.get(server.url)
            with trio.move_on_after(0.1) as scope:
                await client.get(server.url)
            assert scope.cancelled_caught
            began = time.monotonic()
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(client.get, server.url)
            return time.monotonic() - began

    assert 0.7 <= trio.run(main) < 20
    assert len(server.asked) == 3
