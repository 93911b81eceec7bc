"""Requests that wait for their turn, and for what the server says: a client middleware of aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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
from overlimit._steps import await_calls
from overlimit.aio import AsyncLimiter
from overlimit.http import event_loops
from overlimit.http.client import ClientStats, Exchange, Turns
from overlimit.http.client_options import ClientKeywords, describes_client, host_of
from overlimit.http.received import Ended, Recording

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["RateLimitExceeded", "StoreUnavailable", "ThrottledMiddleware", "host_of", "throttled"]

_tasks: set[asyncio.Task[None]] = set()
"""What goes on though nobody awaits it: an event loop keeps none alive."""


class RateLimitExceeded(errors.RateLimitExceeded, aiohttp.ClientError):
    """The turn of a request comes too late or never; nothing was sent. ``decision`` says why."""


class StoreUnavailable(errors.StoreUnavailable, aiohttp.ClientError):
    """The limiter's store cannot be reached; aiohttp would hide it in a ClientOSError, as any OSError."""


@describes_client()
class ThrottledMiddleware:
    """Has each request of a session wait for its turn, and tries again when the server asks to wait.

    ``aiohttp.ClientSession(middlewares=[ThrottledMiddleware(limiter)])``. Each try waits for its turn, and
    spends it; the ``total`` of the session's timeout includes that, its other times begin after it.

    {turns}

    Parameters
    ----------
    limiter
        Whose turns are spent: an ``overlimit.aio.AsyncLimiter``.
    {options}

    Raises
    ------
    RateLimitExceeded
        From a request: its turn comes after ``timeout``, or never. It is an ``aiohttp.ClientError``, too.
    {errors}
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
    response._body, response._released = b"", False  # so that it can be read, if it is returned


@dataclass(kw_only=True, eq=False)
class _RecordedContent(Recording):
    """The content of a response, of which all that is read is noted."""

    content: StreamReader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.content, name)

    def read_nowait(self, n: int = -1) -> bytes:
        """Return what is there."""
        found = self.content.read_nowait(n)
        self.parts.append(found)
        if self.content.at_eof():
            self.end_later()
        return found

    def end_later(self) -> None:
        """Tell the end of it where nobody awaits that."""
        if self.has_ended:
            return
        with contextlib.suppress(RuntimeError):  # no event loop runs any more
            task = asyncio.get_running_loop().create_task(await_calls(self.end()))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)


def _noting(name: str) -> Callable[..., Awaitable[Any]]:
    """Return a method of a content that notes what one of its reader returns."""

    async def read(self: _RecordedContent, *args: Any, **kwargs: Any) -> Any:
        try:
            found = await getattr(self.content, name)(*args, **kwargs)
            self.parts.append(found[0] if isinstance(found, tuple) else found)
        except asyncio.IncompleteReadError as error:
            self.parts.append(error.partial)
            raise
        finally:
            if self.content.at_eof():
                await await_calls(self.end())
        return found

    return read


for _name in ("read", "readany", "readchunk", "readexactly", "readline", "readuntil"):
    setattr(_RecordedContent, _name, _noting(_name))
for _name in ("__aiter__", "iter_any", "iter_chunked", "iter_chunks"):  # which ask those
    setattr(_RecordedContent, _name, getattr(StreamReader, _name))


async def _record(response: aiohttp.ClientResponse, ended: Ended) -> aiohttp.ClientResponse:
    """Have the end of a response, or its being closed, told once with what was read of it."""
    content: Any = _RecordedContent(content=response.content, ended=ended)
    close, release, wait_for_close = response.close, response.release, response.wait_for_close

    def closing() -> None:
        close()
        content.end_later()

    def releasing() -> Any:
        content.end_later()
        return release()

    async def waiting_for_close() -> None:
        await wait_for_close()
        await await_calls(content.end())

    response.content = content
    changed = {"close": closing, "release": releasing, "wait_for_close": waiting_for_close}
    response.__dict__.update(changed)
    return response
