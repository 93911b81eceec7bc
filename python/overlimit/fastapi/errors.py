"""How a request is refused: the exceptions, and the responses that they become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi.exception_handlers import http_exception_handler
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from overlimit import Decision, errors
from overlimit.http.answering.fields import RETRY_AFTER, retry_after_seconds
from overlimit.http.answering.refusals import Problem, limit_exceeded, refusal_response, store_failed
from overlimit.http.callables import is_coroutine_function


class RefusedRequest(HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    decision: Decision
    retry_after_name = RETRY_AFTER
    """The name of the field that says when to come back."""

    def _describe(self, problem: Problem, decision: Decision) -> None:
        seconds = retry_after_seconds(decision)
        headers = None if seconds is None else {RETRY_AFTER: str(seconds)}
        HTTPException.__init__(self, problem.status.value, problem.detail, headers)
        self.decision, self._problem = decision, problem

    def __str__(self) -> str:
        return f"{self.status_code}: {self.detail}"

    def response(self, accept: str | None) -> Response:
        """Return the answer to a request with this ``Accept`` field."""
        status, fields, body = refusal_response(self._problem, self.decision, accept, self.retry_after_name)
        return Response(body, status.value, dict(fields))


class RateLimitExceeded(errors.RateLimitExceeded, RefusedRequest):
    """429 with the decision that refused; it has no ``Retry-After`` when waiting cannot help."""

    def __init__(self, decision: Decision, detail: str | None = None, violated: Iterable[str] = ()) -> None:
        """Refuse because of a decision; ``detail`` is what the answer says, ``violated`` names the limits."""
        self._violated = tuple(violated)
        self._describe(limit_exceeded(decision, detail, self._violated), decision)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision, self.detail, self._violated)


class StoreFailed(RefusedRequest):
    """503 with the decision of ``on_error="deny"``: the store failed, so nothing may pass."""

    def __init__(self, decision: Decision) -> None:
        self._describe(store_failed(), decision)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision,)


async def answer_refusal(request: Request, error: RefusedRequest) -> Response:
    """Answer as the app answers every HTTPException, or by problem details if it does not say how."""
    handler: Any = request.app.exception_handlers.get(HTTPException)
    if handler is None or handler is http_exception_handler:
        return error.response(request.headers.get("Accept"))
    if is_coroutine_function(handler):
        response: Response = await handler(request, error)
        return response
    return await run_in_threadpool(handler, request, error)
