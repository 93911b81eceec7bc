"""Rate limits for every WSGI app: Bottle, Falcon, Pyramid, or plain WSGI."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit._addresses import group_address
from overlimit.errors import RateLimitExceeded
from overlimit.http.answering.fields import HeaderNames, shows_fields, with_ours
from overlimit.http.answering.refusals import RefusalResponse, retry_after_instead, status_code
from overlimit.http.cookies import cookies_in
from overlimit.http.deciding import settling
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import NO_PLAN
from overlimit.http.deciding.settling import DECISION, ENTRY, NOTHING, keep_admitted
from overlimit.http.identifying.builtin import (
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_user,
    by_user_or_address,
)
from overlimit.http.middleware import Exempt, LimitsByPath, MiddlewareOptions, RouteSteps, checks_arguments
from overlimit.http.options.limit_options import LimitsValue
from overlimit.http.request import EnvironRequest, json_in, may_have_json
from overlimit.stores import Store

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from typing_extensions import Unpack

__all__ = ["HeaderNames", "RateLimitMiddleware", "Response", "group_address", "refund", "settle"]
__all__ += ["by_address", "by_cookie", "by_header", "by_json", "by_user", "by_user_or_address"]

Fields = list[tuple[str, str]]


class Response(NamedTuple):
    """The response as the app has begun it; ``deduct_when`` is called with it."""

    status: str
    headers: Fields

    @property
    def status_code(self) -> int:
        """The number that the status begins with."""
        return int(self.status[:3])


_FAILURE = Response("500 Internal Server Error", [])


def settle(environ: WSGIEnvironment, used: int) -> None:
    """Make a request cost what it used, as ``RateLimit.settle`` does, by its environ.

    Also once its stream has ended. Raises RuntimeError, too, if no middleware has seen the request.
    """
    settling.settle(settling.ledgers_in(environ), used)


def refund(environ: WSGIEnvironment) -> None:
    """Give back what a request was charged, once, unless it is settled; raise as `settle` does."""
    settling.refund(settling.ledgers_in(environ))


class RateLimitMiddleware:
    """Limits the requests to a WSGI app, before it sees them.

    OPTIONS requests are not limited; all others are, including those that end with a 404. Functions are given
    the environ if they take it, after the response or the decision if they are given one.
    ``environ["overlimit.decision"]`` is the Decision on the request; None if it is not limited.
    ``environ["overlimit.request"]`` has the methods `settle` and `refund` for it.

    Parameters
    ----------
    limits
        Hold for all requests of an identifier together: a string, a limit, a function that returns one of
        these, or a list. Optional if there are ``routes``.
    routes
        Limits by pattern: ``{"/login": "5/minute", "POST /upload/*": "10/hour"}``. The first that matches
        replaces ``limits``, and has one count per identifier; ``*`` matches any rest, slashes too.
    global_limits
        Hold for all clients together, on every path that is not exempt: one count, whoever asks.
    exempt
        Patterns of requests that are not limited, or a function that returns true for them.
    identifiers, key_func, anonymous
        Who is limited, as for `overlimit.flask.RateLimit`; by default the address, and the user that a server
        or a middleware around this one has put into ``REMOTE_USER``.
    cost, deduct_when
        What a request spends, and whether it counts, given the `Response`.
    on_breach
        Called with the Decision of a refusal; a WSGI app that it returns is the answer.
    store, clock, algorithm, key_prefix, enabled, headers, header_names, on_error, penalty, local_share, \
explain, shadow, trusted_proxies, address_header, ipv6_prefix
        As for `overlimit.flask.RateLimit`.

    Raises
    ------
    InvalidLimit
        A limit is malformed.
    ValueError, TypeError
        Another option has an invalid value, or there is no option of this name.
    """

    @checks_arguments()
    def __init__(
        self,
        app: WSGIApplication,
        *,
        limits: LimitsValue | None = None,
        routes: Mapping[str, LimitsValue] | None = None,
        exempt: Exempt = None,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """Compile the limits; nothing is connected to."""
        if not callable(app):
            raise TypeError(f"the first argument must be the WSGI app, not {type(app).__name__}")
        self._app = app
        self._limits = LimitsByPath(limits, routes, exempt, {}, None, app, **options)

    @property
    def store(self) -> Store:
        """Where requests are counted."""
        return self._limits.rate_limit.store

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request, for ``overlimit.simulation.replay``."""
        return self._limits.route_charges(method, path)

    def close(self) -> None:
        """Give back what the store has leased, and close its connections; a later request opens new ones."""
        self.store.close()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Decide a request, and hand it to the app unless it is refused."""
        environ[DECISION] = None
        request = _Request(environ, environ)
        method, path = environ["REQUEST_METHOD"], _text(environ.get("PATH_INFO", ""))
        plan = self._limits.plan(method, path, request.arguments)
        if plan is None:
            environ.setdefault(ENTRY, NOTHING)
            return self._call_app(request, environ, _Start(start_response, []))
        if plan.memories:
            self._limits.warn_if_apart(plan, multiprocess=environ.get("wsgi.multiprocess"))
        ledger = RequestLedger(request, plan)
        ledger.decide()
        environ[DECISION] = ledger.decision(self._limits.rate_limit)
        start = _Start(start_response, ledger.fields())
        if ledger.refusal is not None:
            return _answer(ledger.refusal, environ, start)
        keep_admitted(ledger, environ)
        return self._call_app(request, environ, start, ledger)

    def _call_app(
        self, request: _Request, environ: WSGIEnvironment, start: _Start, ledger: RequestLedger | None = None
    ) -> Iterable[bytes]:
        """Let the app answer, and answer what it refuses by limiters of its own."""
        try:
            chunks = self._app(environ, start)
        except RateLimitExceeded as error:
            chunks = self._refuse(request, environ, start, ledger, error)
        except Exception:
            start.response = _FAILURE
            _refund_uncounted(ledger, start)
            raise
        if start.has_begun and (ledger is None or not ledger.may_refund):
            return chunks  # which may be a file that the server is to send by itself
        return _Body(chunks, start, ledger, partial(self._refuse, request, environ, start, ledger))

    def _refuse(
        self,
        request: _Request,
        environ: WSGIEnvironment,
        start: _Start,
        ledger: RequestLedger | None,
        error: RateLimitExceeded,
    ) -> Iterable[bytes]:
        known = RequestLedger(request, NO_PLAN) if ledger is None else ledger
        refusal = known.raised(error.decision, self._limits.rate_limit, environ.get("HTTP_ACCEPT"))
        start.fields = known.fields()
        return _send(refusal, environ, start)


class _Request(EnvironRequest):
    __slots__ = ()

    def user(self) -> object:
        return self._environ.get("REMOTE_USER")

    def cookie(self, name: str) -> str | None:
        return cookies_in(self._environ.get("HTTP_COOKIE", "")).get(name)

    def path_parameter(self, name: str) -> object:
        return None

    def json(self) -> object:
        """Read the body of a JSON request unless it is long, so that the app can read it again."""
        length = self._environ.get("CONTENT_LENGTH")
        if not length or not may_have_json(self._environ.get("CONTENT_TYPE"), length):
            return None
        body = self._environ["wsgi.input"].read(int(length))
        self._environ["wsgi.input"] = io.BytesIO(body)
        return json_in(body)


class _Start:
    """Begins a response with the header fields of the decision, besides those that the app has set."""

    def __init__(self, start_response: StartResponse, fields: Fields) -> None:
        self._start_response, self.fields = start_response, fields
        self.response = _FAILURE
        self.has_begun = False

    def __call__(self, status: str, headers: Fields, exc_info: Any = None, /) -> Callable[[bytes], object]:
        self.response, self.has_begun = Response(status, headers), True
        sent = with_ours(headers, self.fields) if self.fields and shows_fields(status) else headers
        if exc_info is None:
            return self._start_response(status, sent)
        return self._start_response(status, sent, exc_info)


class _Body:
    """The body of a response whose request is refunded if it does not count, and which may yet be refused."""

    def __init__(
        self,
        chunks: Iterable[bytes],
        start: _Start,
        ledger: RequestLedger | None,
        refuse: Callable[[RateLimitExceeded], Iterable[bytes]],
    ) -> None:
        self._chunks, self._start, self._ledger, self._refuse = chunks, start, ledger, refuse
        self._has_sent = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._passed_on(self._chunks)
        except RateLimitExceeded as error:
            if self._has_sent:
                raise
            yield from self._passed_on(self._refuse(error))

    def _passed_on(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        try:
            for chunk in chunks:
                if chunk:
                    self._has_sent = True
                    _refund_uncounted(self._ledger, self._start)
                yield chunk
        except Exception:
            self._start.response = _FAILURE
            raise

    def close(self) -> None:
        try:
            _refund_uncounted(self._ledger, self._start)
        finally:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()


def _refund_uncounted(ledger: RequestLedger | None, start: _Start) -> None:
    if ledger is not None and ledger.may_refund:
        ledger.refund_uncounted(start.response)


def _answer(refusal: StoreAnswer, environ: WSGIEnvironment, start: _Start) -> Iterable[bytes]:
    """Answer a refused request by the app that ``on_breach`` returned, or else in a type that it accepts."""
    app = refusal.answer_of_hooks(callable, "a WSGI app")
    if app is not None:
        answered: Iterable[bytes] = app(environ, _with_retry_after(start, refusal))
        return answered
    return _send(refusal.response(environ.get("HTTP_ACCEPT")), environ, start)


def _send(refusal: RefusalResponse, environ: WSGIEnvironment, start: _Start) -> Iterable[bytes]:
    """Send a refusal, in the place of a response that the app has begun by then."""
    status, fields, body = refusal
    start(f"{status.value} {status.phrase}", fields, sys.exc_info() if start.has_begun else None)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _with_retry_after(start: _Start, refusal: StoreAnswer) -> Callable[..., Callable[[bytes], object]]:
    """Return what begins a response, and adds Retry-After to a 429 or 503 that is without."""
    name = refusal.retry_after_name

    def begin(status: str, headers: Fields, exc_info: Any = None, /) -> Callable[[bytes], object]:
        given = next((value for field, value in headers if field.lower() == name.lower()), None)
        seconds = retry_after_instead(refusal.decision, given)
        if status_code(status) in (429, 503) and seconds is not None:
            others = [field for field in headers if field[0].lower() != name.lower()]
            headers = [*others, (name, seconds)]
        return start(status, headers, exc_info)

    return begin


def _text(path: str) -> str:
    """Return a path as it was written: servers decode its UTF-8 as Latin-1."""
    return path.encode("latin-1", "replace").decode("utf-8", "replace")
