"""What a client sends to get another count, or none: what is limited is what the app reads."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from asgi_sites import HELLO
from overlimit.asgi import RateLimitMiddleware, by_header, by_json

JSON = (b"content-type", b"application/json")


def statuses(app, *requests, path="/", method="GET", **scoped):
    """Send requests as a server hands them over: each is its header fields, or those and its body."""

    async def ask(headers, body=b""):
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {"type": "http", "method": method, "path": path, "headers": headers, "client": None}
        await app({**scope, **scoped}, receive, send)
        return sent[0]["status"]

    async def ask_all():
        return [await ask(*(each if isinstance(each, tuple) else (each,))) for each in requests]

    return asyncio.run(ask_all())


def test_a_header_that_is_sent_twice_is_no_new_client():
    app = RateLimitMiddleware(HELLO, limits="2/minute", identifiers=by_header("x-key"))
    twice = [[(b"x-key", b"good"), (b"x-key", b"%d" % number)] for number in range(3)]
    assert statuses(app, *twice) == [200, 200, 429]
    assert statuses(app, *(fields[::-1] for fields in twice)) == [200, 200, 200]


def test_a_second_content_type_does_not_hide_the_body():
    app = RateLimitMiddleware(HELLO, limits="1/minute", identifiers=by_json("a"), anonymous="exempt")
    hidden = ([JSON, (b"content-type", b"x/y")], b'{"a": "victim"}')
    assert statuses(app, hidden, hidden, method="POST") == [200, 429]


@pytest.mark.parametrize("root", ["", "/pre", "/pre/", "/pre/fix"])
def test_no_number_of_slashes_is_a_way_around_a_pattern(root):
    app = RateLimitMiddleware(HELLO, routes={"/api/login": "1/minute", "/": "1/minute"})
    assert statuses(app, [], path=f"{root.rstrip('/')}/api/login", root_path=root) == [200]
    for first, between, last in itertools.product(("/", "//"), ("/", "//", "///"), ("", "/", "//")):
        below = f"{first}api{between}login{last}"
        for path in {below, root.rstrip("/") + below}:
            assert statuses(app, [], path=path, root_path=root) == [429], path
    assert statuses(app, [], path=f"{root.rstrip('/')}api/login", root_path=root) == [200]
    top = {root.rstrip("/"), f"{root.rstrip('/')}/", "/", "//", ""}
    assert sorted(status for path in top for status in statuses(app, [], path=path, root_path=root)) == [
        200,
        *[429] * (len(top) - 1),
    ]
