"""How a request is refused: the exceptions, their responses, and ``Retry-After``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from blinker import Namespace
from flask import Response, after_this_request
from werkzeug.exceptions import HTTPException, ServiceUnavailable, TooManyRequests

from overlimit import Decision, errors
from overlimit.flask.current import EXTENSION, current_request, this_app, this_request
from overlimit.http.fields import RETRY_AFTER, given_seconds, retry_after_seconds
from overlimit.http.ledger import Refusal
from overlimit.http.migration_hints import OF_ERROR, OF_EXCEPTION, HasMigrationHints, hints_at_arguments
from overlimit.http.refusals import (
    MEDIA_TYPES,
    Problem,
    accepted_media_type,
    explained,
    quota_exceeded,
    store_failed,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

__all__ = ["RateLimitExceeded", "RefusedRequest", "StoreFailed", "note_refusal", "rate_limited", "refuse"]

rate_limited = Namespace().signal("rate-limited")
"""Sent once per refusal, also of shadow limits, by the app, with ``decision=``."""

_REFUSAL = "_overlimit_refusal"
"""The attribute of a request that holds its latest refusal."""

_OURS = "_overlimit_retry_after"
"""The attribute of a response that holds what was added to it."""


class RefusedRequest(HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    decision: Decision
    _problem: Problem

    def get_response(  # type: ignore[override]
        self, environ: WSGIEnvironment | None = None, scope: dict[str, object] | None = None
    ) -> Response:
        """Return the response of ``on_breach``, or else one that the request accepts."""
        if self.response is not None:
            return self.response  # type: ignore[return-value]
        media_type = MEDIA_TYPES[0] if environ is None else accepted_media_type(environ.get("HTTP_ACCEPT"))
        response = Response(self._problem.body(media_type), self.code, content_type=media_type)
        seconds = retry_after_seconds(self.decision)
        if seconds is not None:
            response.retry_after = seconds
        response.vary.add("Accept")
        return response


class RateLimitExceeded(HasMigrationHints, errors.RateLimitExceeded, RefusedRequest, TooManyRequests):
    """429 with the decision that refused; its ``Retry-After`` is absent when waiting cannot help."""

    _migration_hints = OF_ERROR

    @hints_at_arguments(OF_EXCEPTION)
    def __init__(
        self,
        decision: Decision,
        description: str | None = None,
        response: Response | None = None,
        violated: Iterable[str] = (),
    ) -> None:
        """Refuse because of ``decision``, which ``violated`` these policies; a ``response`` is the answer."""
        seconds = retry_after_seconds(decision)
        TooManyRequests.__init__(self, description or explained(seconds), response, retry_after=seconds)
        self.decision = decision
        self._violated = tuple(violated)
        note_refusal(decision)
        self._problem = quota_exceeded(self.description or "", self._violated)
        if response is not None:
            # It is the answer then, and no error handler's business.
            self.code = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call, without a response."""
        return type(self), (self.decision, self.description, None, self._violated)


class StoreFailed(RefusedRequest, ServiceUnavailable):
    """503 with the decision of ``on_error="deny"``: the store failed, and nothing may pass without it."""

    def __init__(self, decision: Decision) -> None:
        """Refuse because nobody decided."""
        super().__init__(retry_after=retry_after_seconds(decision))
        self.decision = decision
        note_refusal(decision)
        self._problem = store_failed()
        self.description = self._problem.detail

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision,)


def refuse(refusal: Refusal) -> NoReturn:
    """Answer a refused request.

    Raises
    ------
    RateLimitExceeded
        A limit refused.
    StoreFailed
        The store failed, and ``on_error`` is ``"deny"``.
    """
    decision = refusal.decision
    note_refusal(decision, refusal.call.retry_after_name)
    if refusal.store_failed:
        raise StoreFailed(decision)
    rate_limited.send(this_app(), decision=decision)
    answers = [answer for answer in refusal.answers(()) if isinstance(answer, Response)]
    violated = refusal.violated()
    raise RateLimitExceeded(decision, refusal.message(()), answers[-1] if answers else None, violated)


class _Noted(NamedTuple):
    """A refusal, and what the app calls Retry-After; None: as its first RateLimit does."""

    decision: Decision
    header: str | None


def note_refusal(decision: Decision, header: str | None = None) -> None:
    """Let the response to the current request tell when to come again, if its status is 429 or 503.

    Of several refusals the latest counts. Outside of a request nothing happens.
    """
    asked = this_request()
    if asked is None:
        return
    known: _Noted | None = getattr(asked, _REFUSAL, None)
    if known is None:
        after_this_request(_add_retry_after)
    elif known.decision is decision:
        return
    setattr(asked, _REFUSAL, _Noted(decision, header))


def _add_retry_after(response: Response) -> Response:
    if response.status_code in (429, 503):
        refusal: _Noted = getattr(current_request(), _REFUSAL)
        header = refusal.header or _usual_header()
        _take_off(response, header)
        seconds = retry_after_seconds(refusal.decision)
        given = given_seconds(response.headers.get(header), refusal.decision.time)
        if seconds is not None and (given is None or given < seconds):
            response.headers[header] = str(seconds)
            setattr(response, _OURS, str(seconds))
    return response


def _take_off(response: Response, header: str) -> None:
    """Remove what was added to a response that answers more than one request."""
    ours = getattr(response, _OURS, None)
    if ours is not None and response.headers.get(header) == ours:
        del response.headers[header]


def _usual_header() -> str:
    state = this_app().extensions.get(EXTENSION)
    first = None if state is None else next(iter(state.installations), None)
    return RETRY_AFTER if first is None else str(first.header_names.retry_after)
