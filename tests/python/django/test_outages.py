"""Requests while Redis is stopped or killed: how they are answered, and when."""

from __future__ import annotations

import asyncio
import time

import pytest
from django.http import HttpResponse
from django.urls import path

from overlimit.django import rate_limit

DEADLINE = 0.1


@rate_limit("1000/minute", key="ip")
def view(request):
    return HttpResponse()


@rate_limit("1000/minute", key="ip")
async def view_async(request):
    return HttpResponse()


def both(serve, server, on_error):
    url = f"{server.tcp_url()}?timeout={DEADLINE}"
    options = {"store": url, "on_error": on_error, "clock": None, "application_limits": "9000/minute"}
    urls = path("sync", view), path("async", view_async)
    client, client_async = serve(*urls, **options), serve.asynchronously(*urls, **options)

    def ask(which):
        if which == "sync":
            return client.get("/sync")
        return asyncio.run(client_async.get("/async"))

    return ask


@pytest.mark.parametrize("which", ["sync", "async"])
@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 503)])
def test_no_request_waits_longer_than_the_deadline(serve, start_redis, which, on_error, status):
    server = start_redis()
    ask = both(serve, server, on_error)
    before = ask(which)
    assert (before.status_code, "RateLimit" in before) == (200, True)
    server.pause()
    try:
        began = time.monotonic()
        answers = [ask(which) for _ in range(10)]
        taken = time.monotonic() - began
    finally:
        server.resume()
    assert [each.status_code for each in answers] == [status] * 10
    assert not any("RateLimit" in each for each in answers)
    assert DEADLINE / 2 <= taken <= 10 * 10 * DEADLINE
    server.kill()
    assert ask(which).status_code == status
