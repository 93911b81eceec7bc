"""The exceptions of overlimit; the C++ core raises these same classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from overlimit._core import Decision


class OverlimitError(Exception):
    """Base class of everything overlimit raises by itself."""


class InvalidLimit(OverlimitError, ValueError):
    """A limit, a duration, a share of limits or a policy's name is wrong.

    The message names the argument, or shows the place in the string.
    """


class StoreError(OverlimitError):
    """The store could not answer.

    ``maybe_charged`` is True when the call may have been executed: bytes may have left and no reply came.
    Such a call is never sent again. ``retry_after`` says after how many seconds it is worth asking again; 0.0
    when that is not known.
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


_STORE_ERRORS: Mapping[str, type[StoreError]] = {
    "timeout": StoreTimeout,
    "unavailable": StoreUnavailable,
    "config": StoreConfigError,
    "script": ScriptError,
}


def store_error(kind: str, message: str, retry_after: float, maybe_charged: bool) -> StoreError:
    """Return the error of this kind; the core calls this."""
    error = _STORE_ERRORS[kind](message)
    error.retry_after, error.maybe_charged = retry_after, maybe_charged
    return error


class RateLimitExceeded(OverlimitError):
    """A refusal as an exception: the base class of the one that ``overlimit.flask`` raises.

    ``decision`` is the one that refused. The text says when to come back, and never who was refused.
    """

    decision: Decision

    def __init__(self, decision: Decision) -> None:
        """Refuse because of a decision; raise TypeError for anything else than a Decision."""
        _check_decision(type(self).__name__, decision)
        super().__init__(_explained(decision))
        self.decision = decision

    def __reduce__(self) -> tuple[type[RateLimitExceeded], tuple[Decision]]:
        return type(self), (self.decision,)


def _check_decision(owner: str, given: Any) -> None:
    if not isinstance(given, Decision):
        raise TypeError(
            f"{owner} takes the Decision that refused, as limiter.hit('user:42') returns it, not "
            f"an object of type {type(given).__name__}"
        )


def _explained(decision: Decision) -> str:
    retry_after = decision.retry_after
    if decision.limit is not None and decision.limit._are_slots:
        at_the_latest = f"at the latest in {retry_after:g} seconds"
        return f"all slots are taken ({decision.limit}): one is free once it is given back, {at_the_latest}"
    if math.isinf(retry_after):
        return "rate limit exceeded: this call can never succeed, as it costs more than a limit allows"
    return f"rate limit exceeded: try again in {retry_after:g} seconds"
