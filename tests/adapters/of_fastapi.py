"""FastAPI, with path functions on the event loop and in threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response, StreamingResponse

from adapters.clients import asgi_site, with_user
from adapters.site import Asked, Driver, Reply, Site, by_path, decorators_of, named, of_decorators
from overlimit.fastapi import RateLimit


class FastAPIDriver(Driver):
    cannot = {  # noqa: RUF012
        "head": "what it answers to HEAD has its body taken off by the server",
        "patterns": "limits hold for routes, which the decorators name",
    }

    def __init__(self, *, is_async: bool = False) -> None:
        self._is_async = is_async

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        app = FastAPI()
        given, of_one, exempt = of_decorators(self.functions(options, awaits=awaits))
        routes = given.pop("routes", {})
        limiter = RateLimit(app, **given)
        for path, view in by_path(views).items():
            answer = self._view(view, limiter)
            for limits, shared, own in decorators_of(self, routes.get(path, []), of_one, awaits=awaits):
                if shared is None:
                    answer = limiter.limit(limits, **{"name": path.strip("/") or "root", **own})(answer)
                else:
                    answer = limiter.shared_limit(limits, shared, **own)(answer)
            if path in exempt:
                answer = limiter.exempt(answer)
            app.api_route(path, methods=["GET", "POST", "HEAD"])(answer)
        with asgi_site(with_user(app), limiter) as site:
            yield site

    def _view(self, view: Any, limiter: RateLimit) -> Any:
        def ask(request: Request, body: bytes) -> Reply:
            return Reply.of(view(Asked.of_scope(request.scope, lambda: limiter.current_decision, body)))

        async def spend_later(reply: Reply) -> None:
            for name, *arguments in reply.spends:
                await getattr(limiter, f"a{name}")(*arguments)

        async def parts_later(reply: Reply) -> AsyncIterator[str]:
            yield reply.text
            await spend_later(reply)

        async def answer_later(request: Request) -> Response:
            reply = ask(request, await request.body())
            if reply.stream:
                return StreamingResponse(parts_later(reply), reply.status, reply.headers)
            await spend_later(reply)
            return response(reply)

        def spend(reply: Reply) -> None:
            for name, *arguments in reply.spends:
                getattr(limiter, name)(*arguments)

        def parts(reply: Reply) -> Iterator[str]:
            yield reply.text
            spend(reply)

        def answer(request: Request, body: bytes = Depends(body_of)) -> Response:
            reply = ask(request, body)
            if reply.stream:
                return StreamingResponse(parts(reply), reply.status, reply.headers)
            spend(reply)
            return response(reply)

        return answer_later if self._is_async else answer

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        return of_request(function, own, awaits=awaits, asked=_asked, response=response)


async def body_of(request: Request) -> bytes:
    return await request.body()


def response(answer: Any) -> Any:
    return Response(answer.text, answer.status, answer.headers) if isinstance(answer, Reply) else answer


def _asked(request: Any) -> Asked:
    return Asked.of_scope(request.scope, lambda: None)


def of_request(function: Any, own: int, *, awaits: bool, asked: Any, response: Any) -> Any:
    """Return a function of the app for a framework that gives it the request, a coroutine function or not."""

    async def awaited(request):  # type: ignore[no-untyped-def]
        return function(asked(request))

    async def awaited_with(given, request):  # type: ignore[no-untyped-def]
        return response(function(given, asked(request)))

    def called(request):  # type: ignore[no-untyped-def]
        return function(asked(request))

    def called_with(given, request):  # type: ignore[no-untyped-def]
        return response(function(given, asked(request)))

    made = (awaited_with if own else awaited) if awaits else (called_with if own else called)
    return named(made, function)
