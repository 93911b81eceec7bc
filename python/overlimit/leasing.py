"""How far the decisions of a limiter can be from those of its store: ``bounds``."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

from overlimit import _core
from overlimit._logging.stores import warn_of_unleased
from overlimit._messages.texts import short_repr
from overlimit.limits import Limit, SlidingLog, TokenBucket

SHARE = 0.25
"""The most of what is left that one lease takes."""


class Bounds(NamedTuple):
    """What ``bounds`` returns: how far decisions made without asking the server can be from its own.

    Source: ``docs/semantics.md``, leases.
    """

    over: int
    """The most that is admitted beyond the limits, as long as the server keeps its counts: always 0."""
    stale: float
    """Seconds within which whatever another process does is noticed."""
    lease: float
    """Seconds that a lease under these limits lasts at the longest; 0.0 if nothing is leased."""
    reason: str | None
    """Why nothing is leased; None if something is."""
    share: float
    """The most of what is left that one lease takes; 0.0 if nothing is leased."""
    held: int
    """Units that this process has leased and not spent: what its death would cost."""


class _Wrapper(Protocol):
    """A limiter that asks another one, as an ``AsyncLimiter`` does."""

    @property
    def _limiter(self) -> _core.Limiter: ...


def bounds(limiter: _core.Limiter | _Wrapper) -> Bounds:
    """Return how far the decisions of a limiter can be from those that its store would make.

    All numbers are 0 where every call asks the store: in memory, and in Redis without ``lease`` and
    ``max_stale``. Asks nobody. Raises TypeError for what is neither a `Limiter` nor an ``AsyncLimiter``.

    Examples
    --------
    >>> from overlimit import Limiter, RedisStore, bounds
    >>> bounds(Limiter("100/minute", name="api", store=RedisStore("redis://localhost", lease=0.5))).lease
    0.5
    """
    known = cast("_core.Limiter", getattr(limiter, "_limiter", limiter))
    if not isinstance(known, _core.Limiter):
        raise TypeError(f"bounds() takes a Limiter or an AsyncLimiter, not {short_repr(limiter)}")
    longest_us, held = known._lease_bounds()
    stale = known.store._longest_stale
    if longest_us > 0 and known.clock is None:
        return Bounds(0, stale, longest_us / 1e6, None, SHARE, held)
    return Bounds(0, stale, 0.0, _reason(known), 0.0, held)


def note_unleased(limiter: _core.Limiter) -> None:
    """Have it logged, once per store, that nothing of these limits is leased although the store leases."""
    if limiter.store._longest_lease == 0.0:
        return
    found = bounds(limiter)
    if found.reason is not None and limiter.clock is None:
        warn_of_unleased(limiter.store, limiter, found.reason)


def _reason(limiter: _core.Limiter) -> str:
    if limiter.store._why_unleased is not None:
        return limiter.store._why_unleased
    if limiter.clock is not None:
        return "the limiter has a clock of its own"
    if limiter.penalty is not None:
        return "a call may set the lock of the penalty"
    return next(filter(None, map(_reason_of, limiter.limits)), "a limit grants less than 5 at once")


def _reason_of(limit: Limit) -> str | None:
    if isinstance(limit, SlidingLog):
        return f"{limit!r} keeps the instant of every call"
    if isinstance(limit, TokenBucket) and limit.debt > 0:
        return f"{limit!r} may be overdrawn"
    return None
