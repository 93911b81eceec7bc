"""Requests that wait for their turn, and for what the server says: an adapter of requests."""

from __future__ import annotations

import time
from collections.abc import Iterable
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
from overlimit._messages.texts import short_repr
from overlimit._steps import run_calls
from overlimit.http.client import Exchange, Identify, Patience, host_of
from overlimit.limiter import Limiter

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

__all__ = ["RateLimitExceeded", "ThrottledAdapter", "host_of"]


class RateLimitExceeded(errors.RateLimitExceeded, requests.RequestException):
    """The limiter can never let a request pass; nothing was sent. ``decision`` says why."""


class ThrottledAdapter(HTTPAdapter):
    """Has each request of a session wait for its turn, and tries again when the server asks to wait.

    ``session.mount("https://", ThrottledAdapter(limiter))`` throttles what a session asks of all hosts,
    ``session.mount("https://api.example.com", ...)`` of one. Each try waits for its turn, however long that
    takes, and spends it; the session's timeouts begin after that. A response of 429 or 503 that names a time
    (``Retry-After``, ``RateLimit`` or ``X-RateLimit-*``) is followed by another try after it. One that names
    none or too long a time, and the last, is returned. All requests to the host are held back until
    the time that a refusal names, and so they are by a successful response that says that nothing is left.

    Parameters
    ----------
    limiter
        Whose turns are spent.
    identifiers
        Who is limited: text, a function that is called with the ``PreparedRequest`` and returns it, or a list
        of these, of which all are limited. By default the host.
    retries
        How many further tries there are at most. None but the first is made of a request whose body is not in
        memory, such as a file or a generator: it is never sent twice.
    methods
        The HTTP methods of which there are further tries; by default those that are idempotent: GET, HEAD,
        OPTIONS, TRACE, PUT and DELETE.
    max_wait
        The longest time in seconds that a server may ask to wait.
    pool_connections, pool_maxsize, max_retries, pool_block
        Those of ``HTTPAdapter``. Tries by its ``max_retries``, for failed connections, spend no turn.

    Raises
    ------
    RateLimitExceeded
        From a request: it can never pass. It is a ``requests.RequestException``, too.
    StoreError
        From a request: the limiter's store fails, and its ``on_error`` is ``"raise"``.
    ValueError, TypeError
        A wrong option.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_limiter", "_patience"]  # noqa: RUF012  # what is pickled

    @checks_arguments(hint="write options by name, as retries=3")
    def __init__(
        self,
        limiter: Limiter,
        identifiers: Identify | Iterable[Identify] = host_of,
        *,
        retries: int = 3,
        methods: Iterable[str] | None = None,
        max_wait: float = 60.0,
        pool_connections: int = 10,
        pool_maxsize: int = 10,
        max_retries: Any = 0,
        pool_block: bool = False,
    ) -> None:
        if not isinstance(limiter, Limiter):
            raise TypeError(f"limiter must be an overlimit.Limiter, not {short_repr(limiter)}")
        self._limiter = limiter
        self._patience = Patience(identifiers, retries, methods, max_wait)
        super().__init__(pool_connections, pool_maxsize, max_retries, pool_block)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send a request when its turn has come, again if need be, and return the last response."""
        exchange = Exchange(
            request,
            can_repeat=request.body is None or isinstance(request.body, str | bytes),
            send=partial(super().send, request, *args, **kwargs),
            close=requests.Response.close,
            sleep=time.sleep,
            limiter=self._limiter,
            error=RateLimitExceeded,
        )
        return run_calls(self._patience.sending(exchange))
