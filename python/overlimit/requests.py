"""Requests that wait for their turn, and for what the server says: an adapter of requests."""

from __future__ import annotations

import contextlib
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
            record=_record,
            waiting=IN_THREADS,
            error=RateLimitExceeded,
        )
        return run_calls(self._turns.sending(exchange))

    def stats(self) -> ClientStats:
        """Return what is learnt of each host, with ``learn=True``."""
        return self._turns.stats()


def _record(response: Response, ended: Callable[[bytes], Steps[Call, None]]) -> Response:
    """Have the end of a response, or its being closed, told once with what was read of it."""
    parts: list[bytes] = []
    pending = True
    iter_content, close = response.iter_content, response.close

    def end() -> None:
        nonlocal pending
        if pending:
            pending = False
            content = b"".join(parts)
            parts.clear()
            run_calls(ended(content))

    def reading(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for part in iter_content(*args, **kwargs):
            parts.append(part.encode() if isinstance(part, str) else part)
            yield part
        end()

    def closing() -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(end)
            close()

    response.iter_content, response.close = reading, closing  # type: ignore[method-assign]
    return response
