"""Apps of Starlette and FastAPI: bare, with overlimit and with others."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

import redis.asyncio
import slowapi
from fastapi import Depends, FastAPI, Request
from fastapi_limiter.depends import RateLimiter
from pyrate_limiter import Duration, InMemoryBucket, Rate, RedisBucket
from pyrate_limiter import Limiter as PyrateLimiter
from ratelimit import RateLimitMiddleware as AsgiRateLimit
from ratelimit import Rule
from ratelimit.backends.simple import MemoryBackend
from slowapi.middleware import SlowAPIASGIMiddleware
from slowapi.util import get_remote_address
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from measuring.turns import Sample, Turn
from overlimit.asgi import RateLimitMiddleware
from overlimit.fastapi import RateLimit

LIMITS = "1000000/second; 12000000/minute; 240000000/hour"
REQUESTS = 100

Site = Any
"""An ASGI app."""

SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "root_path": "",
    "headers": [(b"host", b"testserver"), (b"user-agent", b"benchmark"), (b"accept", b"*/*")],
    "client": ("203.0.113.7", 50000),
    "server": ("127.0.0.1", 80),
}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(message: dict[str, Any]) -> None:
    if message.get("status", 200) != 200:
        raise RuntimeError(f"answered {message['status']}")


async def durations(site: Site) -> list[float]:
    taken = []
    for _ in range(REQUESTS):
        scope = dict(SCOPE)
        began = time.perf_counter_ns()
        await site(scope, receive, send)
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return taken


def take_turn(loop: asyncio.AbstractEventLoop, site: Site) -> Sample:
    """Return the median duration of a request, in microseconds."""
    taken = loop.run_until_complete(durations(site))
    return Sample(statistics.median(taken), taken)


def starlette() -> Starlette:
    async def index(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/", index)])


def with_slowapi(app: Starlette) -> Site:
    app.state.limiter = slowapi.Limiter(
        get_remote_address, default_limits=[LIMITS.replace(" ", "")], headers_enabled=True
    )
    app.add_middleware(SlowAPIASGIMiddleware)
    return app


def with_asgi_ratelimit(app: Starlette) -> Site:
    async def by_address(scope: MutableMapping[str, Any]) -> tuple[str, str]:
        return scope["client"][0], "default"

    memory: Any = MemoryBackend
    rule = Rule(second=1_000_000, minute=12_000_000, hour=240_000_000)
    return AsgiRateLimit(app, by_address, memory(), {r"^/": [rule]})


def starlette_sites() -> dict[str, Site]:
    return {
        "bare Starlette": starlette(),
        "overlimit, middleware": RateLimitMiddleware(starlette(), limits=LIMITS),
        "asgi-ratelimit (no header fields)": with_asgi_ratelimit(starlette()),
        "slowapi, middleware": with_slowapi(starlette()),
    }


def fastapi(decorate: Callable[[Any], Any] = lambda function: function, *, depends: Any = ()) -> FastAPI:
    app = FastAPI()

    @app.get("/", dependencies=list(depends))
    @decorate
    async def index() -> PlainTextResponse:
        return PlainTextResponse("ok")

    return app


def fastapi_in_threads(limit: bool) -> FastAPI:
    app = FastAPI()

    def index() -> PlainTextResponse:
        return PlainTextResponse("ok")

    app.get("/")(RateLimit(app).limit(LIMITS)(index) if limit else index)
    return app


def with_overlimit(**options: Any) -> FastAPI:
    limiter = RateLimit(**options)
    app = fastapi(limiter.limit(LIMITS))
    limiter.init_app(app)
    return app


def with_dependency() -> FastAPI:
    limiter = RateLimit()
    app = fastapi(depends=[Depends(limiter.dependency(LIMITS))])
    limiter.init_app(app)
    return app


def with_slowapi_decorator(**options: Any) -> FastAPI:
    limiter = slowapi.Limiter(get_remote_address, headers_enabled=True, **options)
    app = FastAPI()
    app.state.limiter = limiter

    @app.get("/")
    @limiter.limit(LIMITS.replace(" ", ""))
    async def index(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return app


RATES = [
    Rate(1_000_000, Duration.SECOND),
    Rate(12_000_000, Duration.MINUTE),
    Rate(240_000_000, Duration.HOUR),
]


def with_fastapi_limiter(bucket: Any) -> FastAPI:
    return fastapi(depends=[Depends(RateLimiter(PyrateLimiter(bucket)))])


def fastapi_sites() -> dict[str, Site]:
    return {
        "bare FastAPI": fastapi(),
        "overlimit, middleware": RateLimitMiddleware(fastapi(), limits=LIMITS),
        "overlimit, decorator": with_overlimit(),
        "overlimit, dependency": with_dependency(),
        "fastapi-limiter (no fields, one count)": with_fastapi_limiter(InMemoryBucket(RATES)),
        "slowapi, decorator": with_slowapi_decorator(),
    }


def thread_sites() -> dict[str, Site]:
    return {
        "bare FastAPI": fastapi_in_threads(limit=False),
        "overlimit, decorator": fastapi_in_threads(limit=True),
    }


async def redis_sites(socket: str) -> dict[str, Site]:
    bucket = await RedisBucket.init(RATES, redis.asyncio.Redis(unix_socket_path=socket), "benchmark")
    return {
        "bare FastAPI": fastapi(),
        "overlimit, decorator": with_overlimit(store=f"unix://{socket}"),
        "fastapi-limiter (no fields, one count)": with_fastapi_limiter(bucket),
        "slowapi, decorator (blocks the loop)": with_slowapi_decorator(storage_uri=f"redis+unix://{socket}"),
    }


def turns(loop: asyncio.AbstractEventLoop, sites: dict[str, Site]) -> dict[str, Turn]:
    return {name: partial(take_turn, loop, site) for name, site in sites.items()}
