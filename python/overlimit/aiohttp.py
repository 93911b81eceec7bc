"""Requests that wait for their turn, and for what the server says: a client middleware of aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from overlimit._messages.optional import needed

with needed(
    "overlimit.aiohttp needs aiohttp 3.12 or later: pip install 'overlimit[aiohttp]' brings it",
    "aiohttp",
):
    import aiohttp
    from aiohttp.client_middlewares import build_client_middlewares as _  # noqa: F401  # from 3.12 on

from aiohttp import BytesPayload, StreamReader

from overlimit import errors
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit._steps import Steps, await_calls
from overlimit.aio import AsyncLimiter
from overlimit.http import event_loops
from overlimit.http.client import Call, ClientStats, Exchange, Turns
from overlimit.http.client_options import CLIENT_OPTIONS, ClientKeywords, host_of
from overlimit.http.options.kinds import documents

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["RateLimitExceeded", "StoreUnavailable", "ThrottledMiddleware", "host_of", "throttled"]

_Ended = Callable[[bytes], Steps[Call, None]]

_tasks: set[asyncio.Task[None]] = set()
"""What goes on though nobody awaits it: an event loop keeps none alive."""


class RateLimitExceeded(errors.RateLimitExceeded, aiohttp.ClientError):
    """The turn of a request comes too late or never; nothing was sent. ``decision`` says why."""


class StoreUnavailable(errors.StoreUnavailable, aiohttp.ClientError):
    """The limiter's store cannot be reached; aiohttp would hide it in a ClientOSError, as any OSError."""


@documents(CLIENT_OPTIONS)
class ThrottledMiddleware:
    """Has each request of a session wait for its turn, and tries again when the server asks to wait.

    ``aiohttp.ClientSession(middlewares=[ThrottledMiddleware(limiter)])``. Each try waits for its turn, and
    spends it; the ``total`` of the session's timeout includes that, its other times begin after it. A refusal
    that names a time is followed by another try after it. One that names none or too long a time, and the
    last, is returned. All requests to the host are held back until the time that a refusal names, and so they
    are by a successful response that says that nothing is left.

    Parameters
    ----------
    limiter
        Whose turns are spent: an ``overlimit.aio.AsyncLimiter``.
    {options}

    Raises
    ------
    RateLimitExceeded
        From a request: its turn comes after ``timeout``, or never. It is an ``aiohttp.ClientError``, too.
    StoreError
        From a request: the limiter's store fails, and its ``on_error`` is ``"raise"``.
    ValueError, TypeError
        A wrong option.
    """

    @checks_arguments(hint="write options by name, as retries=3")
    def __init__(self, limiter: AsyncLimiter, **options: Unpack[ClientKeywords]) -> None:
        check = partial(event_loops.as_limiter, instead="AsyncLimiter, whose calls are awaited")
        self._turns = Turns("ThrottledMiddleware", check(limiter), check, **options)

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request when its turn has come, again if need be, and return the last response."""
        exchange = Exchange(
            request,
            can_repeat=not request.body or isinstance(request.body, BytesPayload),
            send=partial(handler, request),
            close=_close,
            keep=_keep,
            record=_record,
            waiting=event_loops.ON_ASYNCIO,
            error=RateLimitExceeded,
            status_of=attrgetter("status"),
        )
        try:
            return await await_calls(self._turns.sending(exchange))
        except errors.StoreUnavailable as error:
            raised = StoreUnavailable(*error.args)
            vars(raised).update(vars(error))
            raise raised from error

    def stats(self) -> ClientStats:
        """Return what is learnt of each host, with ``learn=True``."""
        return self._turns.stats()


def throttled(
    session: aiohttp.ClientSession, limiter: AsyncLimiter, **options: Unpack[ClientKeywords]
) -> aiohttp.ClientSession:
    """Have each request of a session wait for its turn, as by a `ThrottledMiddleware`; return the session.

    It comes before the middlewares that the session has. Options and errors are those of the middleware.
    """
    if not isinstance(session, aiohttp.ClientSession):
        raise TypeError(f"throttled takes an aiohttp.ClientSession, not {short_repr(session)}")
    session._middlewares = (ThrottledMiddleware(limiter, **options), *session._middlewares)
    return session


async def _close(response: aiohttp.ClientResponse) -> None:
    response.close()


async def _keep(response: aiohttp.ClientResponse) -> None:
    try:
        await response.read()
    except aiohttp.ClientError:
        response.close()


class _RecordedContent:
    """The content of a response, of which all that is read is noted."""

    def __init__(self, content: StreamReader, ended: _Ended) -> None:
        self._content, self._ended = content, ended
        self._parts: list[bytes] = []
        self._has_ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    def read_nowait(self, n: int = -1) -> bytes:
        """Return what is there."""
        found = self._content.read_nowait(n)
        self._parts.append(found)
        if self._content.at_eof():
            self.end_later()
        return found

    async def end(self) -> None:
        """Tell the end of it once."""
        if not self._has_ended:
            self._has_ended = True
            content = b"".join(self._parts)
            self._parts.clear()
            await await_calls(self._ended(content))

    def end_later(self) -> None:
        """Tell the end of it where nobody awaits that."""
        if self._has_ended:
            return
        with contextlib.suppress(RuntimeError):  # no event loop runs any more
            task = asyncio.get_running_loop().create_task(self.end())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)


def _noting(name: str) -> Callable[..., Awaitable[Any]]:
    """Return a method of a content that notes what one of its reader returns."""

    async def read(self: _RecordedContent, *args: Any, **kwargs: Any) -> Any:
        try:
            found = await getattr(self._content, name)(*args, **kwargs)
            self._parts.append(found[0] if isinstance(found, tuple) else found)
        except asyncio.IncompleteReadError as error:
            self._parts.append(error.partial)
            raise
        finally:
            if self._content.at_eof():
                await self.end()
        return found

    return read


for _name in ("read", "readany", "readchunk", "readexactly", "readline", "readuntil"):
    setattr(_RecordedContent, _name, _noting(_name))
for _name in ("__aiter__", "iter_any", "iter_chunked", "iter_chunks"):  # which ask those
    setattr(_RecordedContent, _name, getattr(StreamReader, _name))


async def _record(response: aiohttp.ClientResponse, ended: _Ended) -> aiohttp.ClientResponse:
    """Have the end of a response, or its being closed, told once with what was read of it."""
    content: Any = _RecordedContent(response.content, ended)
    close, release, wait_for_close = response.close, response.release, response.wait_for_close

    def closing() -> None:
        close()
        content.end_later()

    def releasing() -> Any:
        content.end_later()
        return release()

    async def waiting_for_close() -> None:
        await wait_for_close()
        await content.end()

    response.content = content
    changed = {"close": closing, "release": releasing, "wait_for_close": waiting_for_close}
    response.__dict__.update(changed)
    return response
