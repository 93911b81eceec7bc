"""Requests that wait for their turn, and for what the server says: transports of httpx."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
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
from overlimit.http import event_loops
from overlimit.http.client import IN_THREADS, ClientStats, Exchange, Turns, checked_limiter
from overlimit.http.client_options import ClientKeywords, describes_client, host_of
from overlimit.http.received import Ended, Recording
from overlimit.limiter import Limiter

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack

__all__ = ["AsyncThrottledTransport", "RateLimitExceeded", "ThrottledTransport", "host_of"]


class RateLimitExceeded(errors.RateLimitExceeded, httpx.TransportError):
    """The turn of a request comes too late or never; nothing was sent. ``decision`` says why."""


class _Throttled:
    """What both transports have: the turns of their requests."""

    _turns: Turns

    def stats(self) -> ClientStats:
        """Return what is learnt of each host, with ``learn=True``."""
        return self._turns.stats()


@describes_client()
class ThrottledTransport(_Throttled, httpx.BaseTransport):
    """Has each request of a client wait for its turn, and tries again when the server asks to wait.

    ``httpx.Client(transport=ThrottledTransport(limiter))``. Each try waits for its turn, and spends it; the
    client's ``timeout=`` begins after that, and never bounds the turn.

    {turns}

    Parameters
    ----------
    limiter
        Whose turns are spent.
    {options}
    transport
        What sends the requests; by default a new ``httpx.HTTPTransport()``. Options of a client such as
        ``verify=`` and ``http2=`` are given to it.

    Raises
    ------
    RateLimitExceeded
        From a request: its turn comes after ``timeout``, or never. It is an ``httpx.TransportError``, too.
    {errors}
    """

    @checks_arguments(hint="write options by name, as retries=3")
    def __init__(
        self,
        limiter: Limiter,
        *,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        self._turns = Turns("ThrottledTransport", _as_limiter(limiter), _as_limiter, **options)
        _check_transport(transport, httpx.BaseTransport)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        exchange = Exchange(
            request,
            can_repeat=isinstance(request.stream, httpx.ByteStream),
            send=partial(self._transport.handle_request, request),
            close=_close,
            record=_record,
            waiting=IN_THREADS,
            error=RateLimitExceeded,
        )
        return run_calls(self._turns.sending(exchange))

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._transport.__exit__(*error)

    def close(self) -> None:
        """Close the transport that sends the requests."""
        self._transport.close()


class AsyncThrottledTransport(_Throttled, httpx.AsyncBaseTransport):
    """A `ThrottledTransport` for ``httpx.AsyncClient``, on asyncio and on trio.

    The options and errors are the same, except that ``limiter``, and those of ``budgets``, are
    ``overlimit.aio.AsyncLimiter``, and ``transport``, by default an ``httpx.AsyncHTTPTransport()``, is async.
    """

    @checks_arguments(hint="write options by name, as retries=3")
    def __init__(
        self,
        limiter: AsyncLimiter,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        check = partial(event_loops.as_limiter, instead="ThrottledTransport, for httpx.Client")
        self._turns = Turns("AsyncThrottledTransport", check(limiter), check, **options)
        _check_transport(transport, httpx.AsyncBaseTransport)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        exchange = Exchange(
            request,
            can_repeat=isinstance(request.stream, httpx.ByteStream),
            send=partial(self._transport.handle_async_request, request),
            close=_close_async,
            record=_record_async,
            waiting=event_loops.waiting(),
            error=RateLimitExceeded,
        )
        return await await_calls(self._turns.sending(exchange))

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._transport.__aexit__(*error)

    async def aclose(self) -> None:
        """Close the transport that sends the requests."""
        await self._transport.aclose()


def _close(response: httpx.Response) -> None:
    with contextlib.closing(response.stream):  # type: ignore[type-var]
        response.stream = httpx.ByteStream(b"")


async def _close_async(response: httpx.Response) -> None:
    async with contextlib.aclosing(response.stream):  # type: ignore[type-var]
        response.stream = httpx.ByteStream(b"")


@dataclass(kw_only=True, eq=False)
class _Recorded(Recording):
    """The stream of a response, and what was read of it."""

    response: httpx.Response
    stream: Any

    def decoded(self, content: bytes) -> bytes:
        status, headers = self.response.status_code, self.response.headers
        with contextlib.suppress(httpx.DecodingError):  # it was closed before its end
            return httpx.Response(status, headers=headers, content=content).content
        return content


class _RecordedStream(_Recorded, httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        for part in self.stream:
            self.parts.append(part)
            yield part

    def close(self) -> None:
        try:
            self.stream.close()
        finally:
            run_calls(self.end())


class _RecordedAsyncStream(_Recorded, httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self.stream:
            self.parts.append(part)
            yield part

    async def aclose(self) -> None:
        try:
            await self.stream.aclose()
        finally:
            await await_calls(self.end())


def _record(response: httpx.Response, ended: Ended) -> httpx.Response:
    if response.is_closed:  # as those that are made with their content
        run_calls(ended(response.content))
    else:
        response.stream = _RecordedStream(response=response, stream=response.stream, ended=ended)
    return response


async def _record_async(response: httpx.Response, ended: Ended) -> httpx.Response:
    if response.is_closed:
        await await_calls(ended(response.content))
    else:
        response.stream = _RecordedAsyncStream(response=response, stream=response.stream, ended=ended)
    return response


def _as_limiter(given: Any) -> Limiter:
    hint = ": write AsyncThrottledTransport, for httpx.AsyncClient" if isinstance(given, AsyncLimiter) else ""
    return checked_limiter(Limiter, "an overlimit.Limiter", given, hint)


def _check_transport(transport: object, kind: type) -> None:
    if transport is not None and not isinstance(transport, kind):
        raise TypeError(f"transport must be an httpx.{kind.__name__}, not {short_repr(transport)}")
