"""A client of aiohttp, as the other ones are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp

from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.aiohttp import ThrottledMiddleware
from servers.patience import PATIENCE

from .async_arguments import as_async, async_options


class AiohttpClient:
    """A session whose requests are throttled, on a loop of its own."""

    errors = (aiohttp.ClientError,)
    is_async = True

    def __init__(self, limiter: Limiter, timeout: float = PATIENCE, **options: Any) -> None:
        self.throttle = ThrottledMiddleware(AsyncLimiter._of(limiter), **async_options(options))
        self._loop = asyncio.new_event_loop()
        self._session = self._loop.run_until_complete(self._open(timeout))

    async def _open(self, timeout: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            middlewares=[self.throttle],
            connector=aiohttp.TCPConnector(limit=1),
            timeout=aiohttp.ClientTimeout(total=None, connect=timeout, sock_read=timeout),
        )

    def ask(self, method: str, url: str, body: Any = None) -> tuple[int, bytes]:
        if hasattr(body, "__next__"):
            body = as_async(body)
        return self._loop.run_until_complete(self._ask(method, url, body))

    async def _ask(self, method: str, url: str, body: Any) -> tuple[int, bytes]:
        async with self._session.request(method, url, data=body) as answer:
            return answer.status, await answer.read()

    def first_part(self, url: str) -> bytes:
        """Return the first bytes of what is streamed, and close it."""

        async def read() -> bytes:
            async with self._session.get(url) as answer:
                return await anext(answer.content.iter_chunked(5))

        return self._loop.run_until_complete(read())

    def stream(self, url: str, meanwhile: Callable[[], None]) -> list[bytes]:
        """Return what came before and after something is done."""

        async def read() -> list[bytes]:
            async with self._session.get(url) as answer:
                parts = answer.content.iter_chunked(5)
                first = await anext(parts)
                meanwhile()
                return [first, b"".join([part async for part in parts])]

        return self._loop.run_until_complete(read())

    def close(self) -> None:
        self._loop.run_until_complete(self._session.close())
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
