"""Django, with both kinds of views under both kinds of servers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from adapters.clients import asgi_site, wsgi_client
from adapters.of_fastapi import of_request
from adapters.site import Asked, Driver, Reply, Site, by_path, decorators_of, of_decorators

OURS = "overlimit.django.RateLimitMiddleware"
numbers = itertools.count()


def configure() -> None:
    """Set Django up, unless that is done."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="only for tests", USE_TZ=True)
        django.setup()


class WithUser:
    """Gives requests the user of the header X-User."""

    sync_capable = async_capable = True

    def __new__(cls, get_response: Any) -> Any:
        from django.utils.decorators import sync_and_async_middleware

        @sync_and_async_middleware
        def of_user(get_response: Any) -> Any:
            def middleware(request: Any) -> Any:
                user = request.headers.get("X-User")
                request.user = SimpleNamespace(is_authenticated=user is not None, pk=user)
                return get_response(request)

            async def middleware_later(request: Any) -> Any:
                user = request.headers.get("X-User")
                request.user = SimpleNamespace(is_authenticated=user is not None, pk=user)
                return await get_response(request)

            return middleware_later if inspect.iscoroutinefunction(get_response) else middleware

        return of_user(get_response)


class DjangoDriver(Driver):
    def __init__(self, *, is_async: bool = False, on_asgi: bool = False) -> None:
        self._is_async, self._on_asgi = is_async, on_asgi
        mixed = {} if is_async == on_asgi else {"stream": "Django warns of parts of the other kind"}
        self.cannot = {
            "patterns": "limits hold for views, which the decorators name",
            "key_func": "KEY takes functions of both kinds, and lists",
            "ratelimit": "it has a setting, which says what holds",
            "head": "what it answers to HEAD has its body taken off by the server",
            **mixed,
        }

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        configure()
        from django.core.asgi import get_asgi_application
        from django.core.wsgi import get_wsgi_application
        from django.test import override_settings
        from django.urls import path

        from overlimit.django import exempt, rate_limit

        given, of_one, free = of_decorators(self.functions(options, awaits=awaits))
        routes = given.pop("routes", {})
        given = {"key" if name == "identifiers" else name: value for name, value in given.items()}
        setting = {
            name.upper(): value for name, value in given.items() if value is not None or name == "headers"
        }
        urls = []
        for at, view in by_path(views).items():
            answer = self._view(view)
            for limits, shared, own in decorators_of(self, routes.get(at, []), of_one, awaits=awaits):
                how = {"name": at.strip("/") or "root"} if shared is None else {"group": shared}
                key = {"key" if name == "identifiers" else name: value for name, value in own.items()}
                answer = rate_limit(limits, **{**how, **key})(answer)
            urls.append(path(at.removeprefix("/"), exempt(answer) if at in free else answer))
        middleware = [OURS, f"{__name__}.WithUser"]
        with override_settings(ROOT_URLCONF=tuple(urls), MIDDLEWARE=middleware, OVERLIMIT=setting):
            if self._on_asgi:
                with asgi_site(get_asgi_application(), None) as site:
                    yield site
            else:
                yield Site(wsgi_client(get_wsgi_application()))

    def _view(self, view: Any) -> Any:
        from django.http import StreamingHttpResponse

        import overlimit.django

        def spend(request: Any, reply: Reply) -> None:
            for name, *arguments in reply.spends:
                getattr(overlimit.django, name)(request, *arguments)

        def parts(request: Any, reply: Reply) -> Iterator[str]:
            yield reply.text
            spend(request, reply)

        def answer(request: Any) -> Any:
            reply = Reply.of(view(_asked(request, read=True)))
            if reply.stream:
                return StreamingHttpResponse(
                    parts(request, reply), status=reply.status, headers=reply.headers
                )
            spend(request, reply)
            return response(reply)

        async def spend_later(request: Any, reply: Reply) -> None:
            for name, *arguments in reply.spends:
                await getattr(overlimit.django, f"a{name}")(request, *arguments)

        async def parts_later(request: Any, reply: Reply) -> AsyncIterator[str]:
            yield reply.text
            await spend_later(request, reply)

        async def answer_later(request: Any) -> Any:
            reply = Reply.of(view(_asked(request, read=True)))
            if reply.stream:
                made = parts_later(request, reply)
                return StreamingHttpResponse(made, status=reply.status, headers=reply.headers)
            await spend_later(request, reply)
            return response(reply)

        made = answer_later if self._is_async else answer
        made.__qualname__ = f"view_{next(numbers)}"  # by which its requests are counted
        return made

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        return of_request(function, own, awaits=awaits, asked=_asked, response=response)


def response(answer: Any) -> Any:
    from django.http import HttpResponse

    if not isinstance(answer, Reply):
        return answer
    return HttpResponse(answer.text, status=answer.status, headers=answer.headers)


def _asked(request: Any, *, read: bool = False) -> Asked:
    from overlimit.django import current_decision

    body = request.body if read else b""
    return Asked.of_environ(
        {**request.META, "PATH_INFO": request.path}, lambda: current_decision(request), body
    )
