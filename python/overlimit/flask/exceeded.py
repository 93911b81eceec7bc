"""The exceptions that refuse a request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flask import Request, Response
from werkzeug.exceptions import HTTPException, ServiceUnavailable, TooManyRequests

from overlimit import Decision, errors
from overlimit.flask.counterparts import OF_ERROR, OF_EXCEPTION, PointsToCounterparts, says_what_to_write
from overlimit.flask.retry_after import note_refusal
from overlimit.http.fields import retry_after_seconds
from overlimit.http.refusals import MEDIA_TYPES, Problem, explained, quota_exceeded, store_failed

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

__all__ = ["RateLimitExceeded", "Refusal", "StoreFailed"]


class Refusal(HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    decision: Decision
    _problem: Problem

    def get_response(  # type: ignore[override]
        self, environ: WSGIEnvironment | None = None, scope: dict[str, object] | None = None
    ) -> Response:
        """Return the response of ``on_breach``, or else one that the request accepts."""
        if self.response is not None:
            return self.response  # type: ignore[return-value]
        media_type = _accepted(environ)
        response = Response(self._problem.body(media_type), self.code, content_type=media_type)
        seconds = retry_after_seconds(self.decision)
        if seconds is not None:
            response.retry_after = seconds
        response.vary.add("Accept")
        return response


class RateLimitExceeded(PointsToCounterparts, errors.RateLimitExceeded, Refusal, TooManyRequests):
    """429 with the decision that refused; its ``Retry-After`` is absent when waiting cannot help."""

    _counterparts = OF_ERROR

    @says_what_to_write(OF_EXCEPTION)
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


class StoreFailed(Refusal, ServiceUnavailable):
    """503 with the decision of ``on_error="deny"``: the store failed, and nothing may pass without it."""

    def __init__(self, decision: Decision) -> None:
        """Refuse because nobody decided."""
        super().__init__(retry_after=max(1, math.ceil(decision.retry_after)))
        self.decision = decision
        note_refusal(decision)
        self._problem = store_failed()
        self.description = self._problem.detail

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision,)


def _accepted(environ: WSGIEnvironment | None) -> str:
    if environ is None:
        return MEDIA_TYPES[0]
    return Request(environ).accept_mimetypes.best_match(MEDIA_TYPES, MEDIA_TYPES[0])
