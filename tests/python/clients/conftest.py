"""A server that answers by a script, and clients of each library that are throttled."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import httpx
import pytest
import requests

from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.httpx import AsyncThrottledTransport, ThrottledTransport
from overlimit.requests import ThrottledAdapter
from servers.patience import PATIENCE
from servers.scripted_http import ScriptedServer, scripted_server

from .async_arguments import as_async, async_options


class RequestsClient:
    """A session whose requests are throttled."""

    errors = (requests.RequestException,)
    is_async = False

    def __init__(self, limiter: Limiter, timeout: float = PATIENCE, **options: Any) -> None:
        self._session, self._timeout = requests.Session(), timeout
        self._session.trust_env = False
        options.setdefault("timeout", options.pop("turn_within", None))
        self.throttle = ThrottledAdapter(limiter, pool_maxsize=1, pool_block=True, **options)
        self._session.mount("http://", self.throttle)

    def ask(self, method: str, url: str, body: Any = None) -> tuple[int, bytes]:
        answer = self._session.request(method, url, data=body, timeout=self._timeout)
        return answer.status_code, answer.content

    def first_part(self, url: str) -> bytes:
        """Return the first bytes of what is streamed, and close it."""
        with self._session.get(url, stream=True, timeout=self._timeout) as answer:
            return next(answer.iter_content(5))

    def stream(self, url: str, meanwhile: Callable[[], None]) -> list[bytes]:
        """Return what came before and after something is done."""
        with self._session.get(url, stream=True, timeout=self._timeout) as answer:
            parts = answer.iter_content(5)
            first = next(parts)
            meanwhile()
            return [first, b"".join(parts)]

    def close(self) -> None:
        self._session.close()


def one_connection(timeout: float) -> dict[str, Any]:
    """Return the options of a client whose requests need the same connection, or find none."""
    return {"timeout": httpx.Timeout(timeout, pool=timeout), "follow_redirects": True}


ONE_CONNECTION: dict[str, Any] = {"limits": httpx.Limits(max_connections=1), "verify": False}


class HttpxClient:
    """A client whose requests are throttled."""

    errors = (httpx.TransportError,)
    is_async = False

    def __init__(self, limiter: Limiter, timeout: float = PATIENCE, **options: Any) -> None:
        options.setdefault("transport", httpx.HTTPTransport(**ONE_CONNECTION))
        options.setdefault("timeout", options.pop("turn_within", None))
        self.throttle = ThrottledTransport(limiter, **options)
        self._client = httpx.Client(transport=self.throttle, **one_connection(timeout))

    def ask(self, method: str, url: str, body: Any = None) -> tuple[int, bytes]:
        answer = self._client.request(method, url, content=body)
        return answer.status_code, answer.content

    def first_part(self, url: str) -> bytes:
        """Return the first bytes of what is streamed, and close it."""
        with self._client.stream("GET", url) as answer:
            return next(answer.iter_bytes(5))

    def stream(self, url: str, meanwhile: Callable[[], None]) -> list[bytes]:
        """Return what came before and after something is done."""
        with self._client.stream("GET", url) as answer:
            parts = answer.iter_bytes(5)
            first = next(parts)
            meanwhile()
            return [first, b"".join(parts)]

    def close(self) -> None:
        self._client.close()


class AsyncHttpxClient:
    """An async client whose requests are throttled, on a loop of its own."""

    errors = (httpx.TransportError,)
    is_async = True

    def __init__(self, limiter: Limiter, timeout: float = PATIENCE, **options: Any) -> None:
        options.setdefault("transport", httpx.AsyncHTTPTransport(**ONE_CONNECTION))
        transport = AsyncThrottledTransport(AsyncLimiter._of(limiter), **async_options(options))
        self._loop, self.throttle = asyncio.new_event_loop(), transport
        self._client = httpx.AsyncClient(transport=transport, **one_connection(timeout))

    def ask(self, method: str, url: str, body: Any = None) -> tuple[int, bytes]:
        if hasattr(body, "__next__"):
            body = as_async(body)
        answer = self._loop.run_until_complete(self._client.request(method, url, content=body))
        return answer.status_code, answer.content

    def first_part(self, url: str) -> bytes:
        """Return the first bytes of what is streamed, and close it."""

        async def read() -> bytes:
            async with self._client.stream("GET", url) as answer:
                return await anext(answer.aiter_bytes(5))

        return self._loop.run_until_complete(read())

    def stream(self, url: str, meanwhile: Callable[[], None]) -> list[bytes]:
        """Return what came before and after something is done."""

        async def read() -> list[bytes]:
            async with self._client.stream("GET", url) as answer:
                parts = answer.aiter_bytes(5)
                first = await parts.__anext__()
                meanwhile()
                return [first, b"".join([part async for part in parts])]

        return self._loop.run_until_complete(read())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


CLIENTS = {"requests": RequestsClient, "httpx": HttpxClient, "async httpx": AsyncHttpxClient}
if find_spec("aiohttp"):  # which there is not without the GIL
    CLIENTS["aiohttp"] = importlib.import_module(".aiohttp_client", __package__).AiohttpClient


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def other_server() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a client of a library: ``client(limiter, retries=1)``."""
    with ExitStack() as clients:

        def make(limiter: Limiter, **options: Any) -> Any:
            made = request.param(limiter, **options)
            clients.callback(made.close)
            return made

        yield make


@pytest.fixture
def limiter() -> Limiter:
    """Return a limiter that holds up nobody, but counts."""
    return Limiter("1000/hour")
