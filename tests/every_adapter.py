"""The same small app under the limits of each adapter, asked with header fields as a client sends them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import parse_headers
from typing import Any, NamedTuple
from wsgiref.handlers import SimpleHandler

from werkzeug.test import Client, EnvironBuilder

from asgi_sites import AsgiSite

ADAPTERS = ("flask", "fastapi", "quart", "asgi", "wsgi", "django", "django on asgi")
View = Callable[[], Any]


class Answer(NamedTuple):
    """What a client sees."""

    status: int
    headers: Any
    text: str


class Site:
    """One app; ``ask`` sends a request."""

    def __init__(self, send: Callable[..., Answer]) -> None:
        self._send = send

    def ask(self, *fields: tuple[str, str], path: str = "/", peer: str = "192.0.2.1") -> Answer:
        return self._send(path, list(fields), peer)

    def statuses(self, *requests: Iterable[tuple[str, str]], **options: Any) -> list[int]:
        """Return the statuses of requests with these header fields."""
        return [self.ask(*fields, **options).status for fields in requests]


@contextmanager
def serving(adapter: str, view: View = lambda: "ok", **options: Any) -> Iterator[Site]:
    """Serve ``view`` at / and, on an event loop where there is one, at /async.

    ``limits`` holds for each route; other options are those of the adapter, by the names of Flask.
    """
    make = {"django on asgi": _django}.get(adapter) or globals()[f"_{adapter}"]
    with make(view, options, on_asgi=adapter == "django on asgi") as send:
        yield Site(send)


_OF_ROUTES = {"limits": "default_limits", "deduct_when": "default_limits_deduct_when"}


def _of_decorators(options: dict[str, Any]) -> dict[str, Any]:
    return {_OF_ROUTES.get(name, name): value for name, value in options.items() if name != "exempt"}


@contextmanager
def _flask(view: View, options: dict[str, Any], **_: Any) -> Iterator[Callable[..., Answer]]:
    from flask import Flask

    from overlimit.flask import RateLimit

    app = Flask("every")
    RateLimit(app, **_of_decorators(options))

    async def on_loop() -> Any:
        return view()

    app.add_url_rule("/", "view", view)
    app.add_url_rule("/async", "on_loop", on_loop)
    yield _wsgi_client(app)


@contextmanager
def _wsgi(view: View, options: dict[str, Any], **_: Any) -> Iterator[Callable[..., Answer]]:
    from overlimit.wsgi import RateLimitMiddleware

    def app(environ: Any, start_response: Any) -> Any:
        body = view()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [body.encode()]

    def in_parts(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield view().encode()

    def routed(environ: Any, start_response: Any) -> Any:
        return (in_parts if environ["PATH_INFO"] == "/async" else app)(environ, start_response)

    yield _wsgi_server(RateLimitMiddleware(routed, **{"limits": "99/minute", **options}))


@contextmanager
def _fastapi(view: View, options: dict[str, Any], **_: Any) -> Iterator[Callable[..., Answer]]:
    from fastapi import FastAPI

    from overlimit.fastapi import RateLimit

    app = FastAPI()
    RateLimit(app, **_of_decorators(options))

    async def on_loop() -> Any:
        return view()

    app.get("/")(view)
    app.get("/async")(on_loop)
    with _asgi_client(app) as send:
        yield send


@contextmanager
def _quart(view: View, options: dict[str, Any], **_: Any) -> Iterator[Callable[..., Answer]]:
    from quart import Quart

    from overlimit.quart import RateLimit

    app = Quart("every")
    RateLimit(app, **_of_decorators(options))

    async def on_loop() -> Any:
        return view()

    app.add_url_rule("/", "view", view)
    app.add_url_rule("/async", "on_loop", on_loop)
    with _asgi_client(app) as send:
        yield send


@contextmanager
def _asgi(view: View, options: dict[str, Any], **_: Any) -> Iterator[Callable[..., Answer]]:
    from overlimit.asgi import RateLimitMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = view()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body.encode()})

    with _asgi_client(RateLimitMiddleware(app, **{"limits": "99/minute", **options})) as send:
        yield send


@contextmanager
def _django(view: View, options: dict[str, Any], *, on_asgi: bool) -> Iterator[Callable[..., Answer]]:
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="only for tests", USE_TZ=True)
        django.setup()
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.test import override_settings
    from django.urls import path

    async def on_loop(request: Any) -> Any:
        return HttpResponse(view())

    urls = (path("", lambda request: HttpResponse(view())), path("async", on_loop))
    given = {**_of_decorators(options), "key": options.get("identifiers")}
    given.pop("identifiers", None)
    limits = {name.upper(): value for name, value in given.items() if value is not None or name == "headers"}
    middleware = ["overlimit.django.RateLimitMiddleware"]
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=middleware, OVERLIMIT=limits):
        if on_asgi:
            with _asgi_client(get_asgi_application()) as send:
                yield send
        else:
            yield _wsgi_client(get_wsgi_application())


def _wsgi_client(app: Any) -> Callable[..., Answer]:
    def send(path: str, fields: list[tuple[str, str]], peer: str) -> Answer:
        response = Client(app).get(path, headers=fields, environ_overrides={"REMOTE_ADDR": peer})
        return Answer(response.status_code, response.headers, response.text)

    return send


def _wsgi_server(app: Any) -> Callable[..., Answer]:
    """Return a client of a server of the standard library, which lets an app begin its answer anew."""

    def send(path: str, fields: list[tuple[str, str]], peer: str) -> Answer:
        sent = io.BytesIO()
        given = EnvironBuilder(path, headers=fields).get_environ() | {"REMOTE_ADDR": peer}
        SimpleHandler(io.BytesIO(), sent, io.StringIO(), given).run(app)
        sent.seek(0)
        status = int(sent.readline().split()[1])
        return Answer(status, parse_headers(sent), sent.read().decode())

    return send


@contextmanager
def _asgi_client(app: Any) -> Iterator[Callable[..., Answer]]:
    site = AsgiSite(app)

    def send(path: str, fields: list[tuple[str, str]], peer: str) -> Answer:
        response = site.ask(path, headers=fields, ip=peer)
        return Answer(response.status_code, response.headers, response.text)

    try:
        yield send
    finally:
        site.close()
