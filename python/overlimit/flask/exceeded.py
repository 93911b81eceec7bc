"""The exception that refuses a request."""

from __future__ import annotations

from werkzeug.exceptions import TooManyRequests

from overlimit import Decision
from overlimit.http.fields import retry_after_seconds

__all__ = ["RateLimitExceeded"]


class RateLimitExceeded(TooManyRequests):
    """429 with the decision that refused; its ``Retry-After`` is absent when waiting cannot help."""

    decision: Decision

    def __init__(self, decision: Decision) -> None:
        """Refuse because of ``decision``."""
        seconds = retry_after_seconds(decision)
        super().__init__(_description(seconds), retry_after=seconds)
        self.decision = decision


def _description(seconds: int | None) -> str:
    if seconds is None:
        return "The rate limit here never admits this request."
    return f"Too many requests: the next one is admitted in {seconds} second{'s' if seconds > 1 else ''}."
