"""When a client sends a request, and when it sends it again, whatever library it uses; without any I/O.

Each try waits for its turn by a limiter of the client, and for as long as the server has asked. A 429 or 503
that names a time holds back all requests to its host for that time, and is answered by another try after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from overlimit._core import Decision
from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit._steps import Steps
from overlimit.errors import RateLimitExceeded
from overlimit.http.fields import ASKS_TO_WAIT, parse, seconds_to_wait
from overlimit.http.held_back import HeldBack
from overlimit.http.options.limit_options import methods_of
from overlimit.waiting.throttled_calls import check_identifier

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""The methods of requests that may be sent again, as it makes no difference (RFC 9110, section 9.2.2)."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST = 1e9
"""Seconds that time.sleep can sleep: 30 years."""

Identify: TypeAlias = "str | bytes | Callable[[Any], str | bytes | Iterable[str | bytes]]"
"""Who is limited, or a function of a request that returns it."""


class SentRequest(Protocol):
    """A request, as httpx and requests have it."""

    @property
    def method(self) -> str | None:
        """The HTTP method."""

    @property
    def url(self) -> Any:
        """What the whole URL is the text of."""


class GotResponse(Protocol):
    """A response, as httpx and requests have it."""

    @property
    def status_code(self) -> int:
        """The number of the status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields."""


R = TypeVar("R", bound=GotResponse)


@dataclass(frozen=True, eq=False)
class Exchange(Generic[R]):
    """What a library does for one request; whoever makes its calls may have to await what they return."""

    request: SentRequest
    can_repeat: bool
    """Whether the body can be read again."""
    send: Callable[[], Any]
    """Sends the request, and returns the response."""
    close: Callable[[R], Any]
    """Lets go of a response that nobody reads."""
    sleep: Callable[[float], Any]
    limiter: Any
    """Whose turn it waits for: a Limiter, or an AsyncLimiter, whose calls are awaited."""
    error: Callable[[Decision], RateLimitExceeded]
    """What is raised when it will never be anybody's turn."""


def host_of(request: SentRequest) -> str:
    """Return the host of a request as an identifier, with the port unless that is the usual one."""
    url = urlsplit(str(request.url))
    host = url.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return name if url.port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{name}:{url.port}"


class Patience:
    """Whose turn a request waits for, and how long a server may ask a client to wait.

    Raises TypeError or ValueError for a wrong option.
    """

    def __init__(
        self,
        identifiers: Identify | Iterable[Identify],
        retries: int,
        methods: Iterable[str] | None,
        max_wait: float,
    ) -> None:
        self._identifiers = _checked_identifiers(identifiers)
        self._retries = _checked_retries(retries)
        self._methods = methods_of(methods) or IDEMPOTENT
        self._max_wait = _checked_max_wait(max_wait)
        self._holds = HeldBack()

    def sending(self, exchange: Exchange[R]) -> Steps[Callable[[], Any], R]:
        """Make as many tries as it takes, and return the last response."""
        host, identifiers = host_of(exchange.request), self._identifiers_of(exchange.request)
        retries = self._retries if exchange.can_repeat and exchange.request.method in self._methods else 0
        while True:
            try:
                yield from self._turn(host, identifiers, exchange)
                response: R = yield exchange.send
                asks_again = self._heard(host, response)
            finally:
                self._holds.end(host, exchange)
            if not asks_again or retries == 0:
                return response
            retries -= 1
            yield partial(exchange.close, response)

    def _turn(
        self, host: str, identifiers: tuple[str | bytes, ...], exchange: Exchange[R]
    ) -> Steps[Callable[[], Any], None]:
        """Wait until the host takes requests and it is the client's turn, both at once."""
        while True:
            while (wait := self._holds.begin(host, exchange)) > 0:
                yield partial(exchange.sleep, wait)
            decision: Decision = yield partial(exchange.limiter.acquire, *identifiers, timeout=None)
            if not decision:
                raise exchange.error(decision)
            if self._holds.seconds_left(host) == 0:
                return
            self._holds.end(host, exchange)
            yield partial(exchange.limiter.refund, decision)

    def _heard(self, host: str, response: GotResponse) -> bool:
        """Note what the server says, and return whether it asks for another try."""
        is_refusal = response.status_code in ASKS_TO_WAIT
        if not is_refusal and response.status_code // 100 != 2:
            return False
        said = parse(response.headers)
        wait = seconds_to_wait(said, response.status_code)
        if wait is not None and wait <= self._max_wait:
            self._holds.hold(host, wait)
            return is_refusal
        left = [limit.remaining for limit in said.limits if limit.remaining]
        if left and not is_refusal:
            self._holds.allow(host, min(left))
        return False

    def _identifiers_of(self, request: SentRequest) -> tuple[str | bytes, ...]:
        found: list[str | bytes] = []
        for given in self._identifiers:
            found.extend(_several(given(request) if callable(given) else given))
        return tuple(found)


def _several(given: Any) -> tuple[Any, ...]:
    is_one = callable(given) or isinstance(given, str | bytes) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)


def _checked_identifiers(given: object) -> tuple[Identify, ...]:
    several = _several(given)
    if not several:
        raise ValueError("identifiers must not be empty: write identifiers=host_of, or a name for all")
    for each in several:
        if not callable(each) and not isinstance(each, str | bytes):
            raise TypeError(
                "identifiers must be text, a function of the request, or a list of these, not "
                f"{short_repr(each)}"
            )
        check_identifier(each)
    return several


def _checked_retries(retries: object) -> int:
    number = whole_number(retries)
    if number is None:
        raise TypeError(f"retries must be a whole number, not {short_repr(retries)}")
    if number < 0:
        raise ValueError(f"retries must be a whole number from 0, not {number}")
    return number


def _checked_max_wait(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"max_wait must be a number of seconds (math.inf for any), not {short_repr(seconds)}")
    if not seconds >= 0 or math.isnan(seconds):
        raise ValueError(f"max_wait must be a number of seconds from 0, not {seconds!r}")
    return min(seconds, _LONGEST)
