"""Where a request of FastAPI is settled: in its coroutines, its threads, and the tasks that outlive it."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import BackgroundTasks, Depends
from fastapi.responses import StreamingResponse


@pytest.fixture
def limited(site):
    return site.limiter.limit("100/day", cost=10, name="tokens")


def test_a_coroutine_awaits_it(site, limited):
    @site.app.get("/")
    @limited
    async def view():
        for call, text in (
            (lambda: site.limiter.settle(5), "asettle(used)"),
            (site.limiter.refund, "arefund()"),
        ):
            with pytest.raises(RuntimeError) as refused:
                call()
            assert str(refused.value) == f"this would block the event loop: write await limiter.{text}"

    assert site.statuses("/", 1) == [200]
    assert site.items() == {"tokens": 80}


def test_a_background_task_and_a_task_that_outlives_the_request_settle_it(site, limited):
    left, ended = [], asyncio.Event()

    async def settle_later():
        await ended.wait()
        await site.limiter.asettle(30)

    @site.app.get("/background")
    @limited
    def background(tasks: BackgroundTasks):
        tasks.add_task(site.limiter.settle, 30)

    @site.app.get("/outlived")
    @limited
    async def outlived():
        left.append(asyncio.create_task(settle_later()))

    async def end():
        ended.set()
        await asyncio.gather(*left)

    site.ask("/background")
    assert site.items("/background") == {"tokens": 60}
    site.ask("/outlived")
    site.run(end())
    assert site.items("/outlived") == {"tokens": 60}


def test_a_dependency_with_yield_settles_it_at_its_end(site, limited):
    async def metered():
        yield
        await site.limiter.asettle(30)

    @site.app.get("/", dependencies=[Depends(metered)])
    @limited
    async def view():
        return "ok"

    site.ask("/")
    assert site.items() == {"tokens": 60}


@pytest.mark.every_store
def test_a_client_that_leaves_its_stream_has_used_what_came_until_then(site, limited):
    left = asyncio.Event()

    @site.app.get("/")
    @limited
    async def view(ends: bool = True):
        async def parts():
            try:
                yield "begun"
                left.set()
                while not ends:
                    await asyncio.sleep(3600)
            finally:
                await site.limiter.asettle(30)

        return StreamingResponse(parts())

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        assert message.get("status", 200) == 200

    async def leave():
        address = {"client": ("192.0.2.1", 5000), "server": ("site", 80), "scheme": "http"}
        request = {"type": "http", "method": "GET", "path": "/", "query_string": b"ends=false", "headers": []}
        await site.asked({**address, **request}, receive, send)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    site.run(leave())
    assert site.items() == {"tokens": 60}


def test_outside_of_a_request_it_says_where_there_is_one(site):
    with pytest.raises(RuntimeError, match=r"settle\(\) needs a request, .* and in a BackgroundTask"):
        site.limiter.settle(5)
