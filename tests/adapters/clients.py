"""Clients of apps of WSGI and ASGI, without a server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import parse_headers
from typing import Any
from wsgiref.handlers import SimpleHandler

import httpx
from werkzeug.test import EnvironBuilder

from adapters.site import Answer, Request, Site


class _Handler(SimpleHandler):
    http_version = "1.1"

    def log_exception(self, exc_info: Any) -> None:
        pass


def wsgi_client(app: Any) -> Callable[[Request], Answer]:
    """Return a client of a server of the standard library, which lets an app begin its answer anew."""

    def send(asked: Request) -> Answer:
        builder = EnvironBuilder(
            asked.path, method=asked.method, headers=list(asked.fields), input_stream=io.BytesIO(asked.body)
        )
        length = {"CONTENT_LENGTH": str(len(asked.body))} if asked.body else {}
        given = builder.get_environ() | {"REMOTE_ADDR": asked.peer} | length
        sent = io.BytesIO()
        _Handler(given["wsgi.input"], sent, io.StringIO(), given, multithread=True, multiprocess=False).run(
            app
        )
        sent.seek(0)
        status = int(sent.readline().split()[1])
        return Answer(status, parse_headers(sent), sent.read().decode())

    return send


@contextmanager
def asgi_site(app: Any, limiter: Any) -> Iterator[Site]:
    """Serve an app on one event loop; an exception of it is a 500, as servers make it."""
    loop = asyncio.new_event_loop()

    async def send_one(asked: Request) -> Answer:
        sent: list[bytes] = []

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            def note(message: Any) -> Any:
                sent.append(message.get("body", b""))
                return send(message)

            await app(scope, receive, note)

        transport = httpx.ASGITransport(watched, client=(asked.peer, 5000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://site") as client:
            given = list(asked.fields)
            response = await client.request(asked.method, asked.path, headers=given, content=asked.body)
        text = b"".join(sent).decode() if asked.method == "HEAD" else response.text
        return Answer(response.status_code, response.headers, text)

    async def send_each(requests: Iterable[Request]) -> list[Answer]:
        return list(await asyncio.gather(*map(send_one, requests)))

    try:
        yield Site(
            lambda asked: loop.run_until_complete(send_one(asked)),
            limiter,
            lambda requests: loop.run_until_complete(send_each(requests)),
        )
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def with_user(app: Any) -> Any:
    """Put the user of the header X-User where apps of ASGI find users."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        user = dict(scope.get("headers", ())).get(b"x-user", b"").decode()
        await app({**scope, "user": user} if user else scope, receive, send)

    return call
