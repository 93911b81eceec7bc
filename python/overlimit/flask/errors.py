"""How a request is refused: the exceptions, their responses, and ``Retry-After``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from blinker import Namespace
from flask import Response, after_this_request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException, ServiceUnavailable, TooManyRequests

from overlimit import errors
from overlimit._core import Decision
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import missing
from overlimit.flask.current import EXTENSION, LEDGER, current_request, this_app, this_request
from overlimit.flask.migration_hints import OF_ERROR, OF_EXCEPTION
from overlimit.http.answering.fields import RETRY_AFTER, retry_after_seconds
from overlimit.http.answering.refusals import retry_after_instead
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.raised import Exceeded, Failed, Refusal, as_refusal

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

rate_limited = Namespace().signal("rate-limited")
"""Sent once per refusal, also of shadow limits, by the app, with ``decision=``."""

_REFUSAL = "_overlimit_refusal"
"""The attribute of a request that holds the decision of its latest refusal."""

_ADDED = "_overlimit_retry_after"
"""The attribute of a response that holds the Retry-After which was added to it."""


class RefusedRequest(Refusal, HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    @property
    def retry_after_name(self) -> str:
        """The name of Retry-After for the RateLimit that refused."""
        return _retry_after_name(self.decision)

    def get_response(  # type: ignore[override]
        self, environ: WSGIEnvironment | None = None, scope: dict[str, object] | None = None
    ) -> Response:
        """Return the response of ``on_breach``, or else one that the request accepts."""
        if self.response is not None:
            return self.response  # type: ignore[return-value]
        _, fields, body = self.answer(None if environ is None else environ.get("HTTP_ACCEPT"))
        return Response(body, self.code, fields)

    def get_headers(self, *args: Any, **kwargs: Any) -> list[tuple[str, str]]:
        """Return the header fields of the exception, with Retry-After under its configured name."""
        own_name, fields = self.retry_after_name, super().get_headers(*args, **kwargs)
        return [(own_name if name == RETRY_AFTER else name, value) for name, value in fields]


REFUSALS = (RefusedRequest, errors.RateLimitExceeded)
"""What is answered as a refusal."""


class RateLimitExceeded(errors.RateLimitExceeded, Exceeded, RefusedRequest, TooManyRequests):
    """429 with the decision that refused; it has no ``Retry-After`` when waiting cannot help."""

    @checks_arguments(instead=OF_EXCEPTION)
    def __init__(
        self,
        decision: Decision,
        description: str | None = None,
        response: Response | None = None,
        violated: Iterable[str] | None = None,
    ) -> None:
        """Refuse because of a decision; ``violated`` names the policies, and a ``response`` is the answer.

        By default the policies are those of the decision, whoever has made it.
        """
        self._describe(decision, description, violated, getattr(this_request(), LEDGER, None))
        seconds = retry_after_seconds(decision)
        TooManyRequests.__init__(self, self._problem.detail, response, retry_after=seconds)
        send_retry_after(decision)
        if response is not None:
            # The response is the answer, and error handlers are not called.
            self.code = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call, without a response."""
        return type(self), (self.decision, self.description, None, self._violated)

    if not TYPE_CHECKING:  # so that type checkers still report missing attributes

        def __getattr__(self, name: str) -> object:
            raise missing(self, name, OF_ERROR)


class StoreFailed(Failed, RefusedRequest, ServiceUnavailable):
    """503 with the decision of ``on_error="deny"``: the store failed, so nothing may pass."""

    def __init__(self, decision: Decision) -> None:
        ServiceUnavailable.__init__(self, retry_after=retry_after_seconds(decision))
        self._describe(decision)
        send_retry_after(decision)
        self.description = self._problem.detail


def as_refused(error: errors.RateLimitExceeded | RefusedRequest) -> RefusedRequest:
    """Return the HTTP exception for a refusal, which a limiter of the app's own may have raised."""
    return as_refusal(error, RateLimitExceeded, StoreFailed)


def refuse(refusal: StoreAnswer) -> NoReturn:
    """Raise the RateLimitExceeded of a refused request, or the StoreFailed of ``on_error="deny"``."""
    decision = refusal.decision
    send_retry_after(decision)  # now, since a hook may answer with a 429 of its own
    if refusal.store_failed:
        raise StoreFailed(decision)
    rate_limited.send(this_app(), decision=decision)
    response = refusal.answer_of_hooks(
        lambda result: isinstance(result, Response), "a response, as make_response(...) makes one"
    )
    raise RateLimitExceeded(decision, refusal.message(), response, refusal.violated())


def send_retry_after(decision: Decision) -> None:
    """Add Retry-After to a 429 or 503 that answers the current request, if any, by its latest refusal."""
    asked = this_request()
    if asked is None:
        return
    if not hasattr(asked, _REFUSAL):
        after_this_request(_add_retry_after)
    setattr(asked, _REFUSAL, decision)


def _add_retry_after(response: Response) -> Response:
    if response.status_code in (429, 503):
        decision: Decision = getattr(current_request(), _REFUSAL)
        name, headers = _retry_after_name(decision), headers_of(response)
        # What was added to a response that answers more than one request.
        added = getattr(response, _ADDED, None)
        if added is not None and headers.get(name) == added:
            del headers[name]
        seconds = retry_after_instead(decision, headers.get(name))
        if seconds is not None:
            headers[name] = seconds
            setattr(response, _ADDED, seconds)
    return response


def headers_of(response: Response) -> Headers:
    """Return the header fields of a response, whose view may have replaced them by a dict or a list."""
    headers = response.headers
    if not isinstance(headers, Headers):
        headers = response.headers = Headers(headers)
    return headers


def _retry_after_name(decision: Decision) -> str:
    """Return the name of Retry-After for the RateLimit that refused, or else for the app's first."""
    asked = this_request()
    if asked is None:
        return RETRY_AFTER
    ledger: RequestLedger | None = getattr(asked, LEDGER, None)
    refusal = None if ledger is None else ledger.refusal
    if refusal is not None and refusal.decision is decision:
        return refusal.retry_after_name
    state = this_app().extensions.get(EXTENSION)
    first = None if state is None else state.rate_limits.first
    return RETRY_AFTER if first is None else str(first.header_names.retry_after)
