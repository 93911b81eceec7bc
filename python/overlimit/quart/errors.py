"""How a request is refused: the exceptions, and the responses that they become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from quart import Response
from werkzeug.exceptions import HTTPException, ServiceUnavailable, TooManyRequests

from overlimit import errors
from overlimit._core import Decision
from overlimit.http.answering.fields import retry_after_seconds
from overlimit.http.asgi.conversations import current
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.steps import run_async
from overlimit.http.raised import Exceeded, Failed, Refusal


class RefusedRequest(Refusal, HTTPException):
    """Answers in the media type that the request accepts: problem details, JSON or HTML."""

    def get_response(self, environ: Any = None, scope: Any = None) -> Response:  # type: ignore[override]
        """Return the response of ``on_breach``, or else one that the request accepts."""
        if self.response is not None:
            return self.response  # type: ignore[return-value]
        asked = None if (conversation := current.get()) is None else conversation.request
        status, fields, body = self.answer(None if asked is None else asked.joined("Accept"))
        return Response(body, status.value, dict(fields))


class RateLimitExceeded(errors.RateLimitExceeded, Exceeded, RefusedRequest, TooManyRequests):
    """429 with the decision that refused; it has no ``Retry-After`` when waiting cannot help."""

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
        ledger = None if (conversation := current.get()) is None else conversation.ledger
        self._describe(decision, description, violated, ledger)
        seconds = retry_after_seconds(decision)
        TooManyRequests.__init__(self, self._problem.detail, response, retry_after=seconds)
        if response is not None:
            # The response is the answer, and error handlers are not called.
            self.code = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the constructor's call, without a response."""
        return type(self), (self.decision, self.description, None, self._violated)


class StoreFailed(Failed, RefusedRequest, ServiceUnavailable):
    """503 with the decision of ``on_error="deny"``: the store failed, so nothing may pass."""

    def __init__(self, decision: Decision) -> None:
        ServiceUnavailable.__init__(self, retry_after=retry_after_seconds(decision))
        self._describe(decision)
        self.description = self._problem.detail


async def refuse(refusal: StoreAnswer) -> NoReturn:
    """Raise the RateLimitExceeded of a refused request, or the StoreFailed of ``on_error="deny"``."""
    if refusal.store_failed:
        raise StoreFailed(refusal.decision)
    hooks = refusal.asking_hooks(lambda made: isinstance(made, Response), "a Response of Quart")
    response = await run_async(hooks)
    message = await run_async(refusal.asking_message())
    raise RateLimitExceeded(refusal.decision, message, response, refusal.violated())
