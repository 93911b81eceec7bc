"""Requests to a Django site are decided by leases, for the options of a URL alone."""

from __future__ import annotations

import asyncio

import pytest
from django.http import HttpResponse
from django.urls import path

from servers.patience import PATIENCE

from .conftest import statuses

REQUESTS = 100


async def hello(request):
    return HttpResponse("hello")


async def asked(client):
    return [(await client.get("/")).status_code for _ in range(REQUESTS)]


@pytest.mark.parametrize("is_async", [False, True])
def test_requests_ask_the_server_now_and_then(serve, redis_server, prefix, is_async):
    options = {
        "store": f"{redis_server.unix_url()}&timeout={PATIENCE}&prefix={prefix}&lease=10&max_stale=1",
        "clock": None,
        "default_limits": "1000/hour",
    }
    before = redis_server.scripts_run()
    if is_async:
        answers = asyncio.run(asked(serve.asynchronously(path("", hello), **options)))
    else:
        answers = statuses(serve(path("", lambda _: HttpResponse("hello")), **options), times=REQUESTS)
    assert answers == [200] * REQUESTS
    assert 0 < redis_server.scripts_run() - before <= REQUESTS / 4
