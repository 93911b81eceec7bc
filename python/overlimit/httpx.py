"""Requests that wait for their turn, and for what the server says: transports of httpx."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from overlimit._messages.optional import needed

with needed(
    "overlimit.httpx needs httpx 0.25 or later: pip install 'overlimit[httpx]' brings it",
    "httpx",
):
    import httpx

from overlimit import errors
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._steps import await_calls, run_calls
from overlimit.aio import AsyncLimiter
from overlimit.http.client import Exchange, Identify, Patience, host_of
from overlimit.limiter import Limiter

if TYPE_CHECKING:
    from typing import Self

__all__ = ["AsyncThrottledTransport", "RateLimitExceeded", "ThrottledTransport", "host_of"]


class RateLimitExceeded(errors.RateLimitExceeded, httpx.TransportError):
    """The limiter can never let a request pass; nothing was sent. ``decision`` says why."""


class ThrottledTransport(httpx.BaseTransport):
    """Has each request of a client wait for its turn, and tries again when the server asks to wait.

    ``httpx.Client(transport=ThrottledTransport(limiter))``. Each try waits for its turn, however long that
    takes, and spends it; the client's timeouts begin after that. A response of 429 or 503 that names a time
    (``Retry-After``, ``RateLimit`` or ``X-RateLimit-*``) is followed by another try after it. One that names
    none or too long a time, and the last, is returned. All requests to the host are held back until
    the time that a refusal names, and so they are by a successful response that says that nothing is left.

    Parameters
    ----------
    limiter
        Whose turns are spent.
    identifiers
        Who is limited: text, a function that is called with the ``httpx.Request`` and returns it, or a list
        of these, of which all are limited. By default the host.
    retries
        How many further tries there are at most. None but the first is made of a request whose body is not in
        memory, such as a file or a generator: it is never sent twice.
    methods
        The HTTP methods of which there are further tries; by default those that are idempotent: GET, HEAD,
        OPTIONS, TRACE, PUT and DELETE.
    max_wait
        The longest time in seconds that a server may ask to wait.
    transport
        What sends the requests; by default a new ``httpx.HTTPTransport()``. Options of a client such as
        ``verify=`` and ``http2=`` are given to it.

    Raises
    ------
    RateLimitExceeded
        From a request: it can never pass. It is an ``httpx.TransportError``, too.
    StoreError
        From a request: the limiter's store fails, and its ``on_error`` is ``"raise"``.
    ValueError, TypeError
        A wrong option.
    """

    @checks_arguments(synonyms={"max_retries": "retries"})
    def __init__(
        self,
        limiter: Limiter,
        *,
        identifiers: Identify | Iterable[Identify] = host_of,
        retries: int = 3,
        methods: Iterable[str] | None = None,
        max_wait: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        _check(limiter, Limiter, "an overlimit.Limiter", "AsyncThrottledTransport, for httpx.AsyncClient")
        _check_transport(transport, httpx.BaseTransport)
        self._limiter = limiter
        self._patience = Patience(identifiers, retries, methods, max_wait)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        send = partial(self._transport.handle_request, request)
        exchange = _exchange(self._limiter, request, send, httpx.Response.close, time.sleep)
        return run_calls(self._patience.sending(exchange))

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._transport.__exit__(*error)

    def close(self) -> None:
        """Close the transport that sends the requests."""
        self._transport.close()


class AsyncThrottledTransport(httpx.AsyncBaseTransport):
    """A `ThrottledTransport` for ``httpx.AsyncClient``, on asyncio.

    The options and errors are the same, but that ``limiter`` is an ``overlimit.aio.AsyncLimiter`` and
    ``transport``, by default an ``httpx.AsyncHTTPTransport()``, an async one.
    """

    @checks_arguments(synonyms={"max_retries": "retries"})
    def __init__(
        self,
        limiter: AsyncLimiter,
        *,
        identifiers: Identify | Iterable[Identify] = host_of,
        retries: int = 3,
        methods: Iterable[str] | None = None,
        max_wait: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        _check(limiter, AsyncLimiter, "an overlimit.aio.AsyncLimiter", "ThrottledTransport, for httpx.Client")
        _check_transport(transport, httpx.AsyncBaseTransport)
        self._limiter = limiter
        self._patience = Patience(identifiers, retries, methods, max_wait)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        send = partial(self._transport.handle_async_request, request)
        exchange = _exchange(self._limiter, request, send, httpx.Response.aclose, asyncio.sleep)
        return await await_calls(self._patience.sending(exchange))

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._transport.__aexit__(*error)

    async def aclose(self) -> None:
        """Close the transport that sends the requests."""
        await self._transport.aclose()


def _exchange(
    limiter: Any,
    request: httpx.Request,
    send: Callable[[], Any],
    close: Callable[[httpx.Response], Any],
    sleep: Callable[[float], Any],
) -> Exchange[httpx.Response]:
    return Exchange(
        request,
        can_repeat=isinstance(request.stream, httpx.ByteStream),
        send=send,
        close=close,
        sleep=sleep,
        limiter=limiter,
        error=RateLimitExceeded,
    )


def _check(limiter: object, kind: type, wanted: str, other: str) -> None:
    if isinstance(limiter, kind):
        return
    hint = f": write {other}" if isinstance(limiter, Limiter | AsyncLimiter) else ""
    raise TypeError(f"limiter must be {wanted}, not {short_repr(limiter)}{hint}")


def _check_transport(transport: object, kind: type) -> None:
    if transport is not None and not isinstance(transport, kind):
        raise TypeError(f"transport must be an httpx.{kind.__name__}, not {short_repr(transport)}")
