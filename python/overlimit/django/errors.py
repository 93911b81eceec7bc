"""The exception of a refusal, for views that hit limiters of their own."""

from __future__ import annotations

from typing import Any

from overlimit import errors
from overlimit._core import Decision


class RateLimitExceeded(errors.RateLimitExceeded):
    """A refusal, which `RateLimitMiddleware` answers with a 429, as any `overlimit.RateLimitExceeded`.

    Raise it in a view: ``raise RateLimitExceeded(decision, "Slow down.")``.

    Parameters
    ----------
    decision
        The Decision that refused, of a `Limiter` or ``request.rate_limit``.
    message
        What the answer says; by default when to come back.
    """

    def __init__(self, decision: Decision, message: str | None = None) -> None:
        super().__init__(decision)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision, self.message)
