"""The middleware around a plain WSGI app, which answers at once or in parts, both checked as WSGI has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from wsgiref.validate import validator

import overlimit.wsgi
from adapters.clients import wsgi_client
from adapters.of_flask import AS_A_VIEW_IS_SYNC
from adapters.site import Asked, Driver, Reply, Site, by_path, named, within


class WsgiDriver(Driver):
    one_limit = all_limits = "application"
    cannot = {  # noqa: RUF012
        "await": AS_A_VIEW_IS_SYNC,
        "decorators": "limits are given to the middleware, by patterns",
        "meta": "a middleware has no refusals of other routes to count",
        "ratelimit": "a middleware has its options, and no methods",
    }

    def __init__(self, *, in_parts: bool = False) -> None:
        self._in_parts = in_parts

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        at = by_path(views)

        def app(environ: Any, start_response: Any) -> Any:
            view = at.get(environ["PATH_INFO"], lambda _: Reply("nowhere", 404))
            reply = Reply.of(view(_asked(environ, read=True)))
            if reply.stream:
                return streamed(reply, environ, start_response)
            spend(environ, reply)
            return answer(reply)(environ, start_response)

        def in_parts(environ: Any, start_response: Any) -> Any:
            yield from app(environ, start_response)

        inner = in_parts if self._in_parts else validator(app)
        limited = within(overlimit.wsgi.RateLimitMiddleware, inner, self.functions(options, awaits=awaits))

        def with_user(environ: Any, start_response: Any) -> Any:
            return limited({**environ, "REMOTE_USER": environ.get("HTTP_X_USER", "")}, start_response)

        yield Site(wsgi_client(with_user if self._in_parts else validator(with_user)), limited)

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        if own:
            return named(lambda given, environ: answer(function(given, _asked(environ))), function)
        return named(lambda environ: function(_asked(environ)), function)


def spend(environ: Any, reply: Reply) -> None:
    for name, *arguments in reply.spends:
        if reply.stream:
            getattr(environ["overlimit.request"], name)(*arguments)
        else:
            getattr(overlimit.wsgi, name)(environ, *arguments)


def streamed(reply: Reply, environ: Any, start_response: Any) -> Iterator[bytes]:
    yield from answer(reply)(environ, start_response)
    spend(environ, reply)


def answer(reply: Any) -> Any:
    """Return an app that answers so."""
    if not isinstance(reply, Reply):
        return reply

    def app(environ: Any, start_response: Any) -> list[bytes]:
        kind = [] if reply.status in (204, 304) else [("Content-Type", "text/plain")]
        start_response(f"{reply.status} {HTTPStatus(reply.status).phrase}", [*kind, *reply.headers.items()])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" or not kind else reply.text.encode()]

    return app


def _asked(environ: Any, *, read: bool = False) -> Asked:
    length = int(environ.get("CONTENT_LENGTH") or 0) if read else 0
    body = environ["wsgi.input"].read(length) if length else b""
    return Asked.of_environ(environ, lambda: environ["overlimit.decision"], body)
