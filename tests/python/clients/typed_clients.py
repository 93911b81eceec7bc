"""Throttled functions and clients as their author's type checker sees them; nothing here is run."""

from __future__ import annotations

from typing import assert_type

import aiohttp
import httpx
import requests

from overlimit import Decision, Limiter, acquire_all
from overlimit.aio import AsyncLimiter
from overlimit.aiohttp import ThrottledMiddleware, throttled
from overlimit.http import total_tokens
from overlimit.http.fields import ServerLimit, ServerLimits, parse
from overlimit.httpx import AsyncThrottledTransport, ThrottledTransport
from overlimit.requests import RateLimitExceeded, ThrottledAdapter, host_of

limiter = Limiter("10/second")
async_limiter = AsyncLimiter("10/second")


@limiter.throttle("api.example.com", cost=2, timeout=3)
def fetch(page: int, *, size: int = 10) -> list[str]:
    return [str(page)] * size


@async_limiter.throttle(lambda page, **_: f"page:{page}", b"all", cost=lambda page, size: size)
async def fetch_later(page: int, *, size: int = 10) -> list[str]:
    return [str(page)] * size


class Client:
    """A client whose methods are throttled."""

    @limiter.throttle(lambda self, path: str(path))
    def get(self, path: str) -> bytes:
        return path.encode()

    @staticmethod
    @limiter.throttle("status")
    def status() -> int:
        return 200


def use() -> None:
    assert_type(fetch(1, size=2), list[str])
    assert_type(Client().get("/"), bytes)
    assert_type(Client.status(), int)
    with limiter.throttle("a") as decision:
        assert_type(decision, Decision)
    assert_type(acquire_all([(limiter, "a"), (limiter, b"b", 2)], timeout=None), Decision)


async def use_later() -> None:
    assert_type(await fetch_later(1, size=2), list[str])
    async with async_limiter.throttle("a") as decision:
        assert_type(decision, Decision)


def talk() -> float | None:
    session = requests.Session()
    session.mount("https://", ThrottledAdapter(limiter, host_of, retries=2, pool_maxsize=4))
    try:
        response = session.get("https://api.example.com/")
    except RateLimitExceeded as error:
        assert_type(error.decision, Decision)
        raise
    said = parse(response.headers)
    assert_type(said, ServerLimits)
    assert_type(said.limits, tuple[ServerLimit, ...])
    parse([(b"Retry-After", b"5")])
    transport = ThrottledTransport(limiter, identifiers=["all", host_of], methods=["POST"], max_wait=5)
    assert_type(transport.stats()["learnt"]["api.example.com"]["number"], int)
    with httpx.Client(transport=transport) as client:
        parse(client.get("https://api.example.com/").headers)
    return said.retry_after


async def talk_with_aiohttp() -> int:
    budgets = [(async_limiter, "tokens", lambda request: 100, total_tokens)]
    middleware = ThrottledMiddleware(
        async_limiter, budgets=budgets, statuses=[429, 529], timeout=5, learn=True
    )
    session = throttled(aiohttp.ClientSession(middlewares=[middleware]), async_limiter, cost=2)
    async with session, session.get("https://api.example.com/") as response:
        return response.status


async def talk_later() -> int:
    transport = AsyncThrottledTransport(
        async_limiter,
        cost=lambda request: len(request.content),
        settle=total_tokens,
        statuses=lambda response: response.status_code == 403,
        transport=httpx.AsyncHTTPTransport(http2=True),
    )
    async with httpx.AsyncClient(transport=transport) as client:
        return (await client.get("https://api.example.com/")).status_code
