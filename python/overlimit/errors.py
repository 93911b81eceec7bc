"""The exceptions of overlimit; the C++ core raises these same classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit._core import Decision

__all__ = [
    "InvalidLimit",
    "OverlimitError",
    "RateLimitExceeded",
    "ScriptError",
    "StoreConfigError",
    "StoreError",
    "StoreTimeout",
    "StoreUnavailable",
]


class OverlimitError(Exception):
    """Base class of everything overlimit raises by itself."""


class InvalidLimit(OverlimitError, ValueError):
    """A limit, or a text describing one, that cannot exist; the message names the argument."""


class StoreError(OverlimitError):
    """The store could not answer.

    ``maybe_charged`` is True when the call may have been executed: bytes may have left and no reply came.
    Such a call is never replayed. ``retry_after`` is how many seconds it takes until it's worth asking again;
    0.0: nobody knows.
    """

    maybe_charged: bool = False
    retry_after: float = 0.0


class StoreTimeout(StoreError, TimeoutError):
    """The deadline of the call passed without a usable answer."""


class StoreUnavailable(StoreError, ConnectionError):
    """No connection could be made, it was lost, or the server says that it cannot serve now."""


class ScriptError(StoreError):
    """A script failed on the server, or answered what it never should."""


class StoreConfigError(StoreError):
    """The configuration is wrong: credentials, permissions, or cluster slots."""


class RateLimitExceeded(OverlimitError):
    """A refusal where it has to be an exception: the base class of those of web frameworks.

    ``decision`` is the one that refused. The text says when to come back, and never who was refused.
    """

    decision: Decision

    def __init__(self, decision: Decision) -> None:
        """Refuse because of a decision."""
        super().__init__(_explained(decision.retry_after))
        self.decision = decision

    def __reduce__(self) -> tuple[type[RateLimitExceeded], tuple[Decision]]:
        """Pickle as the constructor's call."""
        return type(self), (self.decision,)


def _explained(retry_after: float) -> str:
    if math.isinf(retry_after):
        return "rate limit exceeded: this call can never succeed, as it costs more than a limit allows"
    return f"rate limit exceeded: try again in {retry_after:g} seconds"
