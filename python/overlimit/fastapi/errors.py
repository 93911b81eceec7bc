"""How a request is refused: the exceptions, and the responses that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fastapi.exception_handlers import http_exception_handler
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket

from overlimit import errors
from overlimit._core import Decision
from overlimit.http.answering.fields import RETRY_AFTER, retry_after_seconds
from overlimit.http.asgi.conversations import CONVERSATION, current
from overlimit.http.asgi.requests import ASGIApp
from overlimit.http.callables import is_coroutine_function
from overlimit.http.raised import Exceeded, Failed, Refusal, as_refusal


class RefusedRequest(Refusal, HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    def _begin(self) -> None:
        seconds, problem = retry_after_seconds(self.decision), self._problem
        headers = None if seconds is None else {RETRY_AFTER: str(seconds)}
        HTTPException.__init__(self, problem.status.value, problem.detail, headers)

    def __str__(self) -> str:
        return f"{self.status_code}: {self.detail}"

    def response(self, accept: str | None) -> Response:
        """Return the answer as a response of Starlette."""
        status, fields, body = self.answer(accept)
        return Response(body, status.value, dict(fields))


class RateLimitExceeded(errors.RateLimitExceeded, Exceeded, RefusedRequest):
    """429 with the decision that refused; it has no ``Retry-After`` when waiting cannot help."""

    def __init__(
        self, decision: Decision, detail: str | None = None, violated: Iterable[str] | None = None
    ) -> None:
        """Refuse because of a decision; ``detail`` is what the answer says, ``violated`` names the limits.

        By default the limits are those of the decision, whoever has made it.
        """
        conversation = current.get()
        ledger = None if conversation is None else conversation.ledger
        self._describe(decision, detail, violated, ledger)
        self._begin()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision, self.detail, self._violated)


class StoreFailed(Failed, RefusedRequest):
    """503 with the decision of ``on_error="deny"``: the store failed, so nothing may pass."""

    def __init__(self, decision: Decision) -> None:
        self._describe(decision)
        self._begin()


async def answer_refusal(connection: HTTPConnection, error: Exception) -> Response | None:
    """Answer a refusal as the app answers such errors, or by problem details if it does not say how.

    A websocket is closed.
    """
    refused = _as_refused(error)
    conversation = connection.scope.get(CONVERSATION)
    if isinstance(connection, WebSocket):
        await (connection.close(1008) if conversation is None else conversation.refuse(connection, refused))
        return None
    if conversation is not None:
        conversation.note_raised(connection, refused)
    handler = _handler_of_app(connection.app.exception_handlers, refused)
    if handler is None:
        return refused.response(", ".join(connection.headers.getlist("Accept")) or None)
    return await _ask(handler, connection, refused)


def noting_refusals(build: Callable[[], ASGIApp], app: Starlette) -> ASGIApp:
    """Build what an app is called by, whose own handlers answer refusals once these are noted."""
    handlers = app.exception_handlers
    app.exception_handlers = {
        kind: each if each is answer_refusal else partial(_note_then_ask, each)
        for kind, each in handlers.items()
    }
    try:
        return build()
    finally:
        app.exception_handlers = handlers


async def _note_then_ask(handler: Any, connection: HTTPConnection, error: Exception) -> Response | None:
    conversation = connection.scope.get(CONVERSATION)
    is_refusal = isinstance(error, (RefusedRequest, errors.RateLimitExceeded))
    if is_refusal and conversation is not None and not isinstance(connection, WebSocket):
        conversation.note_raised(connection, _as_refused(error))
    return await _ask(handler, connection, error)


async def _ask(handler: Any, connection: HTTPConnection, error: Exception) -> Response | None:
    if is_coroutine_function(handler):
        response: Response | None = await handler(connection, error)
        return response
    return await run_in_threadpool(handler, connection, error)


def _handler_of_app(handlers: Mapping[Any, Any], refused: RefusedRequest) -> Any:
    """Return the handler of the app that is meant for a refusal; None: there is none."""
    kinds = type(refused).__mro__
    wanted = (refused.status_code, *kinds[: kinds.index(HTTPException) + 1])
    found = (handlers[each] for each in wanted if each in handlers)
    return next((each for each in found if each not in (answer_refusal, http_exception_handler)), None)


_as_refused = partial(as_refusal, exceeded=RateLimitExceeded, failed=StoreFailed)
