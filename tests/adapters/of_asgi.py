"""The middleware around a plain ASGI app, which settles on the event loop or in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import overlimit.asgi
from adapters.clients import asgi_site, with_user
from adapters.of_fastapi import of_request
from adapters.site import Asked, Driver, Reply, Site, by_path, within


class AsgiDriver(Driver):
    one_limit = all_limits = "application"

    def __init__(self, *, in_thread: bool = False) -> None:
        self._in_thread = in_thread
        self.cannot = {
            "decorators": "limits are given to the middleware, by patterns",
            "meta": "a middleware has no refusals of other routes to count",
            "ratelimit": "a middleware has its options, and no methods",
            **({"stream": "as without a thread"} if in_thread else {}),
        }

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        at = by_path(views)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            asked = Asked.of_scope(scope, lambda: scope["overlimit.decision"], await read(receive))
            view = at.get(asked.path, lambda _: Reply("nowhere", 404))
            reply = Reply.of(await asyncio.to_thread(view, asked) if self._in_thread else view(asked))
            if not reply.stream:
                await self._spend(scope, reply)
            await answer(reply)(scope, receive, send, ends=not reply.stream)
            if reply.stream:
                await self._spend(scope, reply)
                await send({"type": "http.response.body"})

        limited = within(overlimit.asgi.RateLimitMiddleware, app, self.functions(options, awaits=awaits))
        with asgi_site(with_user(limited), limited) as site:
            yield site

    async def _spend(self, scope: Any, reply: Reply) -> None:
        for name, *arguments in reply.spends:
            if self._in_thread:
                await asyncio.to_thread(getattr(overlimit.asgi, name), scope, *arguments)
            else:
                await getattr(scope["overlimit"], f"a{name}")(*arguments)

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        return of_request(function, own, awaits=awaits, asked=_asked, response=answer)


def _asked(scope: Any) -> Asked:
    return Asked.of_scope(scope, lambda: scope["overlimit.decision"])


async def read(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def answer(reply: Any) -> Any:
    """Return an app that answers so."""
    if not isinstance(reply, Reply):
        return reply

    async def app(scope: Any, receive: Any, send: Any, *, ends: bool = True) -> None:
        fields = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": reply.text.encode(), "more_body": not ends})

    return app
