"""Where a request of FastAPI is settled: in its coroutines, its threads, and the tasks that outlive it."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest
from fastapi import BackgroundTasks, Depends
from fastapi.responses import StreamingResponse

from overlimit.asgi import arefund, asettle


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


def awaits_at_its_end(limiter, goes_on):
    async def parts():
        try:
            yield "begun"
            await goes_on.wait()
        finally:
            await limiter.asettle(30)

    return parts


def waits_at_its_end(limiter, goes_on):
    def parts():
        try:
            yield "begun"
        finally:
            limiter.settle(30)

    return parts


async def leave_stream(site, how):
    """Ask for ``/``, and have the client leave while a part is made or sent, or by an error of sending."""
    left = asyncio.Event()

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message.get("body"):
            left.set()
            if how == "while it is sent":
                await asyncio.sleep(3600)
            if how == "as sending says":
                raise OSError("the client is gone")

    address = {"client": ("192.0.2.1", 5000), "server": ("site", 80), "scheme": "http"}
    request = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    with suppress(OSError):
        await site.asked({**address, **request}, receive, send)
    gc.collect()
    await asyncio.sleep(0)  # and begin to close the streams that are collected
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


@pytest.mark.parametrize("store", ["memory", "redis", "values"], indirect=True)
@pytest.mark.parametrize("how", ["while it is made", "while it is sent", "as sending says"])
@pytest.mark.parametrize("of", [awaits_at_its_end, waits_at_its_end])
@pytest.mark.parametrize("is_path_function", [False, True])
def test_a_client_that_leaves_its_stream_has_used_what_came_until_then(site, of, how, is_path_function):
    tokens = site.limiter.shared_limit("100/day", "tokens", cost=10)
    parts = of(site.limiter, asyncio.Event())

    def view():
        return StreamingResponse(parts())

    async def awaited_view():
        return StreamingResponse(parts())

    view = parts if is_path_function else awaited_view if of is awaits_at_its_end else view
    site.app.get("/", response_class=StreamingResponse)(tokens(view))
    site.app.get("/left")(tokens(lambda: "ok"))
    site.run(leave_stream(site, how))
    assert site.items("/left") == {"tokens": 60}


def test_what_a_stream_raises_at_its_end_is_an_error_of_its_request_alone(site, limited):
    @site.app.get("/")
    @limited
    async def view():
        async def parts():
            try:
                yield "begun"
            finally:
                await site.limiter.asettle(-1)

        return StreamingResponse(parts())

    with pytest.raises(ValueError, match="used must be a whole number from 0"):
        site.run(leave_stream(site, "as sending says"))
    with pytest.raises(RuntimeError, match="needs a request"):
        site.limiter.settle(5)


def test_a_stream_of_a_route_of_starlette_is_settled_by_its_scope(site):
    tokens = site.limiter.shared_limit("100/day", "tokens", cost=10)

    async def view(request):
        async def parts():
            try:
                yield "begun"
            finally:
                await asettle(request.scope, 30)

        return StreamingResponse(parts())

    site.app.add_route("/", tokens(view))
    site.app.get("/left")(tokens(lambda: "ok"))
    site.run(leave_stream(site, "while it is sent"))
    assert site.items("/left") == {"tokens": 60}


@pytest.mark.parametrize("refunded", [False, True])
def test_a_middleware_around_settles_it_by_its_scope(site, limited, refunded):
    site.app.get("/")(limited(lambda: "ok"))

    @site.app.middleware("http")
    async def settle_after(request, call_next):
        response = await call_next(request)
        for call in (site.limiter.asettle(30), site.limiter.arefund()):
            with pytest.raises(RuntimeError, match=r"overlimit\.asgi\.asettle\(request\.scope, used\)"):
                await call
        await (arefund(request.scope) if refunded else asettle(request.scope, 30))
        return response

    assert site.items() == {"tokens": 90}
    assert site.items() == {"tokens": 90 if refunded else 60}


def test_outside_of_a_request_it_says_where_there_is_one(site):
    with pytest.raises(RuntimeError, match=r"settle\(\) needs a request, .* and in a BackgroundTask"):
        site.limiter.settle(5)
