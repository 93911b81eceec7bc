"""Whatever a client sends, a middleware admits it or refuses it, and answers by well-formed fields."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi_sites import HELLO
from overlimit.asgi import RateLimitMiddleware, by_address, by_cookie, by_header, by_json

from .amounts import MANY

pytestmark = pytest.mark.longer_in_prove


async def answer_of(app, scope, body):
    """Return how the answer to a request begins."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    await app({"type": "http", **scope}, receive, send)
    return sent[0]


NAMES = [b"accept", b"cookie", b"x-forwarded-for", b"x-key", b"content-type", b"content-length", b"forwarded"]
VALUES = st.binary(max_size=40) | st.sampled_from(
    [
        b"",
        b",",
        b"=;" * 50,
        b's="',
        b"s",
        b"text/html;q=" + b"9" * 400,
        b"1.1.1.1," * 500,
        b"[::",
        b"::1%",
        b"\r\nx: y",
        b"application/json; charset=utf-7",
    ]
)
HOSTILE = [
    RateLimitMiddleware(
        HELLO,
        limits="3/minute",
        routes={"/x/*": "1/minute", "POST /*": "2/minute"},
        exempt=["/free*"],
        identifiers=[by_address, by_header("x-key"), by_cookie("s"), by_json("a")],
        headers="both",
        trusted_proxies=trusted,
    )
    for trusted in (3, ["0.0.0.0/0", "::/0"])
]


@MANY
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5),
    st.text(max_size=12).map("/".__add__) | st.sampled_from(["", "/x//", "/free/", "/x/\0"]),
    st.sampled_from(["GET", "POST", "", "gEt", "é"]),
    st.none() | st.tuples(st.text(max_size=12), st.integers()),
    VALUES | st.sampled_from([b"{", b"[" * 5000, b'{"a": "\\ud800"}', b'{"a": 1e999}', b"\xff\xfe{"]),
    st.text(max_size=5),
)
def test_whatever_a_client_sends_is_admitted_or_refused_and_breaks_no_field(
    headers, path, method, client, body, root
):
    for app in HOSTILE:
        scope = {"path": path, "method": method, "client": client, "root_path": root, "headers": headers}
        answer = asyncio.run(answer_of(app, scope, body))
        assert answer["status"] in (200, 429)
        assert not any(mark in value for _, value in answer["headers"] for mark in (b"\r", b"\n"))
