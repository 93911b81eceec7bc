"""Requests that wait for their turn, and for what the server says: an adapter of requests."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from overlimit._messages.optional import needed

with needed(
    "overlimit.requests needs requests 2.28 or later: pip install 'overlimit[requests]' brings it",
    "requests",
):
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPResponse
    from urllib3.exceptions import HTTPError

from overlimit import errors
from overlimit._messages.arguments import checks_arguments
from overlimit._steps import run_calls
from overlimit.http.client import IN_THREADS, ClientStats, Exchange, Turns, checked_limiter
from overlimit.http.client_options import Identifiers, TurnKeywords, describes_client, host_of
from overlimit.http.received import Ended, Recording
from overlimit.limiter import Limiter

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from typing_extensions import Unpack

__all__ = ["RateLimitExceeded", "ThrottledAdapter", "host_of"]


class RateLimitExceeded(errors.RateLimitExceeded, requests.RequestException):
    """The turn of a request comes too late or never; nothing was sent. ``decision`` says why."""


@describes_client()
class ThrottledAdapter(HTTPAdapter):
    """Has each request of a session wait for its turn, and tries again when the server asks to wait.

    ``session.mount("https://", ThrottledAdapter(limiter))`` throttles what a session asks of all hosts,
    ``session.mount("https://api.example.com", ...)`` of one. Each try waits for its turn, and spends it; the
    session's timeouts begin after that.

    {turns}

    Parameters
    ----------
    limiter
        Whose turns are spent.
    {options}
    pool_connections, pool_maxsize, max_retries, pool_block
        Those of ``HTTPAdapter``. Tries by its ``max_retries``, for failed connections, spend no turn.

    Raises
    ------
    RateLimitExceeded
        From a request: its turn comes after ``timeout``, or never. It is a ``requests.RequestException``.
    {errors}
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_turns"]  # noqa: RUF012  # what is pickled

    @checks_arguments(hint="write options by name, as retries=3")
    def __init__(
        self,
        limiter: Limiter,
        identifiers: Identifiers = host_of,
        *,
        pool_connections: int = 10,
        pool_maxsize: int = 10,
        max_retries: Any = 0,
        pool_block: bool = False,
        **options: Unpack[TurnKeywords],
    ) -> None:
        check = partial(checked_limiter, Limiter, "an overlimit.Limiter")
        self._turns = Turns("ThrottledAdapter", check(limiter), check, identifiers=identifiers, **options)
        super().__init__(pool_connections, pool_maxsize, max_retries, pool_block)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        exchange = Exchange(
            request,
            can_repeat=request.body is None or isinstance(request.body, str | bytes),
            send=partial(super().send, request, *args, **kwargs),
            close=requests.Response.close,
            record=_record,
            waiting=IN_THREADS,
            error=RateLimitExceeded,
        )
        return run_calls(self._turns.sending(exchange))

    def stats(self) -> ClientStats:
        """Return what is learnt of each host, with ``learn=True``."""
        return self._turns.stats()


def _record(response: Response, ended: Ended) -> Response:
    """Have the end of a response, or its being closed, told once with what was read of it."""
    recorded = _Recorded(raw=response.raw, ended=ended)
    raw, close = response.raw, response.close

    def closing() -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: run_calls(recorded.end()))
            close()

    response.close = closing  # type: ignore[method-assign]
    raw.read, raw.read_chunked = recorded.reading(raw.read), recorded.iterating(raw.read_chunked, notes=True)
    raw.stream = recorded.iterating(raw.stream, notes=False)
    if hasattr(raw, "read1"):
        raw.read1 = recorded.reading(raw.read1, reads_all=False)
    return response


@dataclass(kw_only=True, eq=False)
class _Recorded(Recording):
    """What was read of a response, by whatever method of its ``raw``."""

    raw: Any
    is_decoded: bool = False

    def decoded(self, content: bytes) -> bytes:
        if self.is_decoded:
            return content
        body = HTTPResponse(io.BytesIO(content), self.raw.headers, preload_content=False)
        with contextlib.suppress(HTTPError):  # it was closed before its end
            return body.read(decode_content=True)
        return content

    def _note(self, part: bytes, decodes: bool | None) -> None:
        self.is_decoded = self.raw.decode_content if decodes is None else decodes
        self.parts.append(part)

    def reading(self, read: Callable[..., bytes], *, reads_all: bool = True) -> Callable[..., bytes]:
        """Return a method that notes what this one returns; ``reads_all``: it does without a size."""

        def noting(
            amt: int | None = None, decode_content: bool | None = None, *args: Any, **kwargs: Any
        ) -> bytes:
            part = read(amt, decode_content, *args, **kwargs)
            self._note(part, decode_content)
            has_size = amt is not None and amt >= 0
            is_over = not self.is_decoded and self.raw.closed  # else there may be more decoded
            if is_over or (amt != 0 and not part) or (reads_all and not has_size):
                run_calls(self.end())
            return part

        return noting

    def iterating(
        self, parts: Callable[..., Iterator[bytes]], *, notes: bool
    ) -> Callable[..., Iterator[bytes]]:
        """Return a method that tells when this one has no more; ``notes``: what it calls does not note it."""

        def ending(*args: Any, **kwargs: Any) -> Iterator[bytes]:
            for part in parts(*args, **kwargs):
                if notes:
                    self._note(part, kwargs.get("decode_content", *args[1:2]))
                yield part
            run_calls(self.end())

        return ending
