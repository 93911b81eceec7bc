"""Requests that wait for their turn, and for what the server says: an adapter of requests."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
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
from overlimit._steps import Steps, run_calls
from overlimit.http.client import IN_THREADS, Call, ClientStats, Exchange, Turns, checked_limiter
from overlimit.http.client_options import CLIENT_OPTIONS, Identifiers, TurnKeywords, host_of
from overlimit.http.options.kinds import documents
from overlimit.limiter import Limiter

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from typing_extensions import Unpack

__all__ = ["RateLimitExceeded", "ThrottledAdapter", "host_of"]


class RateLimitExceeded(errors.RateLimitExceeded, requests.RequestException):
    """The turn of a request comes too late or never; nothing was sent. ``decision`` says why."""


@documents(CLIENT_OPTIONS)
class ThrottledAdapter(HTTPAdapter):
    """Has each request of a session wait for its turn, and tries again when the server asks to wait.

    ``session.mount("https://", ThrottledAdapter(limiter))`` throttles what a session asks of all hosts,
    ``session.mount("https://api.example.com", ...)`` of one. Each try waits for its turn, and spends it; the
    session's timeouts begin after that. A refusal that names a time is followed by another try after it. One
    that names none or too long a time, and the last, is returned. All requests to the host are held back
    until the time that a refusal names, and so they are by a successful response that says that nothing is
    left.

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
    StoreError
        From a request: the limiter's store fails, and its ``on_error`` is ``"raise"``.
    ValueError, TypeError
        A wrong option.
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
            keep=_keep,
            record=_record,
            waiting=IN_THREADS,
            error=RateLimitExceeded,
        )
        return run_calls(self._turns.sending(exchange))

    def stats(self) -> ClientStats:
        """Return what is learnt of each host, with ``learn=True``."""
        return self._turns.stats()


def _keep(response: Response) -> None:
    with contextlib.ExitStack() as stack:
        stack.callback(response.close)
        stack.enter_context(contextlib.suppress(requests.RequestException))
        response.content  # noqa: B018  # which reads it


def _record(response: Response, ended: Callable[[bytes], Steps[Call, None]]) -> Response:
    """Have the end of a response, or its being closed, told once with what was read of it."""
    recorded = _Recorded(response, ended)
    raw, close = response.raw, response.close

    def closing() -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(recorded.end)
            close()

    response.close = closing  # type: ignore[method-assign]
    for name in ("read", "read1"):  # by which all others but the next two read
        if hasattr(raw, name):
            setattr(raw, name, recorded.noting(getattr(raw, name)))
    raw.stream, raw.read_chunked = recorded.to_the_end(raw.stream), recorded.noting_chunks(raw.read_chunked)
    return response


class _Recorded:
    """What was read of a response, by whatever method of its ``raw``."""

    def __init__(self, response: Response, ended: Callable[[bytes], Steps[Call, None]]) -> None:
        self._response, self._ended = response, ended
        self._parts: list[bytes] = []
        self._has_ended = self._is_decoded = False

    def end(self) -> None:
        """Tell the end of it once."""
        if not self._has_ended:
            self._has_ended = True
            content = b"".join(self._parts)
            self._parts.clear()
            run_calls(self._ended(content if self._is_decoded else self._decoded(content)))

    def _decoded(self, content: bytes) -> bytes:
        body, headers = io.BytesIO(content), self._response.raw.headers
        try:
            return bytes(HTTPResponse(body, headers, preload_content=False).read(decode_content=True))
        except HTTPError:  # it was closed before its end
            return content

    def _note(self, part: bytes, decodes: bool | None) -> None:
        self._is_decoded = self._response.raw.decode_content if decodes is None else decodes
        self._parts.append(part)

    def noting(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        """Return a method that notes what this one returns, and whether there is more."""

        def reading(
            amt: int | None = None, decode_content: bool | None = None, *args: Any, **kwargs: Any
        ) -> bytes:
            part = read(amt, decode_content, *args, **kwargs)
            self._note(part, decode_content)
            if amt is None or amt < 0 or not part and amt or (self._response.raw.closed and not self._is_decoded):
                self.end()
            return part

        return reading

    def noting_chunks(self, read_chunked: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
        """Return a method that notes the chunks of this one."""

        def reading(amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
            for part in read_chunked(amt, decode_content):
                self._note(part, decode_content)
                yield part
            self.end()

        return reading

    def to_the_end(self, stream: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
        """Return a method that tells when this one has nothing more; the parts are noted by what it calls."""

        def streaming(*args: Any, **kwargs: Any) -> Iterator[bytes]:
            yield from stream(*args, **kwargs)
            self.end()

        return streaming
