"""Quart, with views that are awaited and views that it calls in threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from quart import Quart, Response, g, request, stream_with_context

from adapters.clients import asgi_site
from adapters.of_fastapi import of_request
from adapters.site import Asked, Driver, Reply, Site, by_path, decorators_of, of_decorators
from overlimit.quart import RateLimit


class QuartDriver(Driver):
    def __init__(self, *, is_async: bool = False) -> None:
        self._is_async = is_async
        self.cannot = {
            "patterns": "limits hold for routes, which the decorators name",
            "head": "what it answers to HEAD has its body taken off by the server",
            **({} if is_async else {"stream": "parts that are made in a thread have no request"}),
        }

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        app = Quart("site", static_folder=None)
        given, of_one, exempt = of_decorators(self.functions(options, awaits=awaits))
        routes = given.pop("routes", {})
        limiter = RateLimit(app, **given)

        async def log_in() -> None:
            g.user = request.headers.get("X-User")
            g.body = await request.get_data()

        app.before_request(log_in)
        for path, view in by_path(views).items():
            answer = self._view(view, limiter)
            for limits, shared, own in decorators_of(self, routes.get(path, []), of_one, awaits=awaits):
                if shared is None:
                    answer = limiter.limit(limits, **{"name": path.strip("/") or "root", **own})(answer)
                else:
                    answer = limiter.shared_limit(limits, shared, **own)(answer)
            if path in exempt:
                answer = limiter.exempt(answer)
            app.add_url_rule(path, path.strip("/") or "index", answer, methods=["GET", "POST"])
        with asgi_site(app, limiter) as site:
            yield site

    def _view(self, view: Any, limiter: RateLimit) -> Any:
        async def spend_later(reply: Reply) -> None:
            for name, *arguments in reply.spends:
                await getattr(limiter, f"a{name}")(*arguments)

        async def answer_later() -> Response:
            reply = Reply.of(view(_asked(request, limiter, g.body)))
            if reply.stream:

                @stream_with_context
                async def parts() -> AsyncIterator[bytes]:
                    yield reply.text.encode()
                    await spend_later(reply)

                return Response(parts(), reply.status, reply.headers)
            await spend_later(reply)
            return response(reply)

        def answer() -> Response:
            reply = Reply.of(view(_asked(request, limiter, g.body)))
            for name, *arguments in reply.spends:
                getattr(limiter, name)(*arguments)
            return response(reply)

        return answer_later if self._is_async else answer

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        return of_request(function, own, awaits=awaits, asked=_asked, response=response)


def response(answer: Any) -> Any:
    return Response(answer.text, answer.status, answer.headers) if isinstance(answer, Reply) else answer


def _asked(request: Any, limiter: RateLimit | None = None, body: bytes = b"") -> Asked:
    return Asked.of_scope(request.scope, lambda: limiter and limiter.current_decision, body)
