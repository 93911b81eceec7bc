"""Many requests at once on one event loop, stores that fail, and several stores."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from event_loops import Ticks
from overlimit import MemoryStore
from overlimit.fastapi import RateLimit
from servers.patience import eventually


async def ask_all(app, *asked):
    """Ask for paths at once, each with these header fields."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
        return await asyncio.gather(*(client.get(path, headers=headers) for path, headers in asked))


def statuses(answers):
    return Counter(answer.status_code for answer in answers)


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
    names = "abcdef" * 15
    fields = [{"X-Name": name, "X-Cost": str(1 + (name > "c"))} for name in names]
    answers = site.run(ask_all(site.asked, *(("/", each) for each in fields)))
    told = [(name, each.json()) for name, each in zip(names, answers, strict=True) if each.is_success]
    assert Counter(name for name, _ in told) == {**dict.fromkeys("abc", 10), **dict.fromkeys("def", 5)}
    assert all(name == identifier for name, (identifier, _) in told)
    assert sorted(left for name, (_, left) in told if name == "a") == list(range(10))
    assert sorted(left for name, (_, left) in told if name == "f") == list(range(0, 10, 2))


@pytest.mark.every_store
def test_no_more_are_under_way_than_the_limit_has_left_whatever_will_not_count(site):
    under_way = most = 0

    @site.app.get("/{status}")
    @site.limiter.limit("3/minute", deduct_when=lambda response: response.status_code == 401)
    async def guess(status: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        raise HTTPException(status)

    def guesses(status):
        return statuses(site.run(ask_all(site.asked, *[(f"/{status}", {})] * 20)))

    for _ in range(3):
        passed = guesses(404)
        assert passed[404] >= 3
        assert passed.total() == passed[404] + passed[429]
    assert guesses(401) == {401: 3, 429: 17}
    assert most <= 3
    assert guesses(404) == {429: 20}


@pytest.mark.every_store
def test_event_loops_in_several_threads_count_together(site):
    @site.app.get("/")
    @site.limiter.limit("20/minute")
    async def index() -> None: ...

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(asyncio.run, [ask_all(site.app, *[("/", {})] * 10) for _ in range(4)])
        assert sum(map(statuses, answers), Counter()) == {200: 20, 429: 20}


def test_clients_of_tests_which_make_a_loop_for_each_request_leave_no_connections(start_redis):
    server = start_redis()
    app = FastAPI()
    RateLimit(app, default_limits="999/minute", store=f"{server.tcp_url()}?timeout=10", on_error="raise")
    app.get("/")(lambda: 1)
    client = TestClient(app)

    def connections():
        with server.client() as asking:
            return len(asking.client_list()) - 1

    left = [client.get("/").headers["RateLimit"].split(";")[1] for _ in range(40)]
    assert left == [f"r={number}" for number in range(998, 958, -1)]
    gc.collect()
    eventually(lambda: connections() <= 3)


@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_a_server_that_fails_under_load_holds_up_no_request_and_no_loop(start_redis, fault):
    server, timeout = start_redis(), 0.1
    app = FastAPI()
    limiter = RateLimit(app, default_limits="99999/minute", store=f"{server.tcp_url()}?timeout={timeout}")
    answers, ticks, is_over = [], Ticks(), False

    @app.get("/async")
    async def asynchronous() -> None: ...

    @app.get("/sync")
    def synchronous() -> None: ...

    @app.get("/settled")
    @limiter.limit("99999/minute", deduct_when=lambda response: response.status_code != 200)
    async def settled() -> None: ...

    async def ask(client, path):
        while not is_over:
            began = time.monotonic()
            answer = await client.get(path)
            answers.append((answer.status_code, "RateLimit" in answer.headers, time.monotonic() - began))
            await asyncio.sleep(0.01)

    async def answered(number, are_limited=True):
        """Wait until so many more are answered, and by limits or without them."""
        wanted = sum(each[1] == are_limited for each in answers) + number
        while sum(each[1] == are_limited for each in answers) < wanted:
            await asyncio.sleep(0.01)

    async def main():
        nonlocal is_over
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            asking = [
                asyncio.create_task(ask(client, f"/{kind}")) for kind in ("async", "sync", "settled") * 3
            ]
            await answered(50)
            ticking = asyncio.create_task(ticks.run())
            server.pause() if fault == "stopped" else server.kill()
            await answered(100, are_limited=False)
            await asyncio.to_thread(server.resume if fault == "stopped" else server.restart)
            await answered(50)
            is_over = True
            await asyncio.gather(*asking)
            ticking.cancel()

    asyncio.run(main())
    assert {status for status, _, _ in answers} == {200}
    seconds = sorted(took for _, _, took in answers)
    assert seconds[len(seconds) // 2] < 10 * timeout
    assert seconds[-1] < 30 * timeout
    ticks.assert_free()


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
