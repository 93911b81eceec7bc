"""Many requests at once on one event loop, stores that fail, and several stores."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from overlimit import MemoryStore
from overlimit.fastapi import RateLimit


@pytest.mark.every_store
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_requests_that_wait_at_once_are_decided_each_by_its_own(site, is_async):
    async def identifiers(request):
        name = request.headers["X-Name"]
        await asyncio.sleep(0)
        return name

    async def cost(request):
        await asyncio.sleep(0)
        return int(request.headers["X-Cost"])

    async def asynchronous():
        await asyncio.sleep(0)
        decision = site.limiter.current_decision
        return [decision.identifier, decision.remaining]

    def synchronous():
        decision = site.limiter.current_decision
        return [decision.identifier, decision.remaining]

    limit = site.limiter.limit("10/minute", identifiers=identifiers, cost=cost)
    site.app.get("/")(limit(asynchronous if is_async else synchronous))

    async def ask_all():
        transport = httpx.ASGITransport(site.asked)
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            sent = [{"X-Name": name, "X-Cost": str(1 + (name > "c"))} for name in "abcdef" * 15]
            answers = await asyncio.gather(*(client.get("/", headers=headers) for headers in sent))
            return [(headers["X-Name"], answer) for headers, answer in zip(sent, answers, strict=True)]

    answers = site.run(ask_all())
    admitted = Counter(name for name, answer in answers if answer.status_code == 200)
    assert admitted == {**dict.fromkeys("abc", 10), **dict.fromkeys("def", 5)}
    told = [(name, answer.json()) for name, answer in answers if answer.status_code == 200]
    assert all(name == identifier for name, (identifier, _) in told)
    assert sorted(left for name, (_, left) in told if name == "a") == list(range(10))
    assert sorted(left for name, (_, left) in told if name == "f") == list(range(0, 10, 2))


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("limits", ["2/minute", lambda: "2/minute"], ids=["text", "function"])
def test_other_limits_hold_in_memory_while_the_store_fails(make_site, is_async, limits):
    async def awaited():
        return limits() if callable(limits) else limits

    fallback = awaited if callable(limits) else limits
    site = make_site(
        default_limits="1/minute", in_memory_fallback=fallback, store="redis://localhost:1/0", clock=None
    )

    async def asynchronous() -> None: ...

    def synchronous() -> None: ...

    site.app.get("/")(asynchronous if is_async else synchronous)
    assert site.statuses("/", 3) == [200, 200, 429]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_what_one_store_has_charged_comes_back_if_another_refuses(make_site, clock, is_async):
    site = make_site(default_limits="5/minute")
    second = RateLimit(
        site.app,
        application_limits=["1/minute", lambda: "9/minute"],
        store=MemoryStore(),
        clock=clock,
        algorithm="fixed_window",
    )

    async def asynchronous() -> None: ...

    def synchronous() -> None: ...

    site.app.get("/")(asynchronous if is_async else synchronous)
    assert site.statuses("/", 4) == [200, 429, 429, 429]
    second.enabled = False
    assert site.items("/") == {"default": 3}
