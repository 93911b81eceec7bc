"""Limiters of the wrong kind: those that are awaited where none is, and the other way round."""

from __future__ import annotations

import sys

from overlimit import _core
from overlimit._messages.texts import short_repr


def expected_limiter(given: object, function: str) -> str:
    """Say what a function on several limiters takes, and which one takes what it was given."""
    aio = sys.modules.get("overlimit.aio.limiter")  # without which there is no AsyncLimiter
    if aio is not None and isinstance(given, aio.AsyncLimiter):
        return (
            f"overlimit.{function} takes Limiters, not an AsyncLimiter: write await overlimit.aio.{function}"
        )
    return f"expected a Limiter, not {short_repr(given)}"


def expected_async_limiter(given: object, function: str) -> str:
    """Say what a function on several AsyncLimiters takes, and which one takes what it was given."""
    if isinstance(given, _core.Limiter):
        return (
            f"overlimit.aio.{function} takes AsyncLimiters, not a Limiter: write AsyncLimiter, or "
            f"overlimit.{function}, which is not awaited"
        )
    return f"expected an AsyncLimiter, not {short_repr(given)}"
