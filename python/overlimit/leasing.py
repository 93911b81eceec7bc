"""How far the decisions of a limiter can be from those of its store: ``bounds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from overlimit import _core
from overlimit._logging.stores import warn_of_unleased
from overlimit._messages.texts import short_repr
from overlimit.limits import Limit, SlidingLog, TokenBucket
from overlimit.stores.redis import RedisStore

if TYPE_CHECKING:
    from overlimit.limiter import Limiter

SHARE = 0.25
"""The most of what is left that one lease takes."""


class Bounds(NamedTuple):
    """What ``bounds`` returns: how far decisions made without asking the server can be from its own.

    Source: ``docs/semantics.md``, leases.
    """

    over: int
    """The most that is admitted beyond the limits, while the server keeps its counts: always 0."""
    stale: float
    """Seconds within which whatever another process does is noticed."""
    lease: float
    """Seconds that a lease under these limits lasts at the longest; 0.0 if nothing is leased."""
    reason: str | None
    """Why nothing is leased; None if something is."""
    share: float
    """The most of what is left that one lease takes."""
    held: int
    """Units that this process has leased and not spent: what its death would cost."""


def bounds(limiter: Limiter) -> Bounds:
    """Return how far the decisions of a limiter can be from those that its store would make.

    All of it is 0 where every call asks the store: in memory, and in Redis without ``lease`` and
    ``max_stale``. Asks nobody. Raises TypeError for what is no `Limiter`.

    Examples
    --------
    >>> from overlimit import Limiter, RedisStore, bounds
    >>> bounds(Limiter("100/minute", name="api", store=RedisStore("redis://localhost", lease=0.5))).lease
    0.5
    """
    if not isinstance(limiter, _core.Limiter):
        raise TypeError(f"bounds() takes a Limiter, not {short_repr(limiter)}")
    longest_us, held = limiter._lease_bounds()
    stale = limiter.store._longest_stale if isinstance(limiter.store, RedisStore) else 0.0
    reason = None if longest_us > 0 and limiter.clock is None else _reason(limiter)
    return Bounds(0, stale, longest_us / 1e6 if reason is None else 0.0, reason, SHARE, held)


def note_unleased(limiter: Limiter) -> None:
    """Have it logged, once per store, that nothing of these limits is leased although the store leases."""
    if not isinstance(limiter.store, RedisStore) or limiter.store._longest_lease == 0.0:
        return
    found = bounds(limiter)
    if found.reason is not None and limiter.clock is None:
        warn_of_unleased(limiter.store, limiter, found.reason)


def _reason(limiter: Limiter) -> str:
    if not isinstance(limiter.store, RedisStore):
        return "the store is no RedisStore"
    if limiter.store._longest_lease == 0.0:
        return "the store has no lease"
    if limiter.clock is not None:
        return "the limiter has a clock of its own"
    if limiter.penalty is not None:
        return "a call may set the lock of the penalty"
    return next(filter(None, map(_reason_of, limiter.limits)), "a limit grants less than 5")


def _reason_of(limit: Limit) -> str | None:
    if isinstance(limit, SlidingLog):
        return f"{limit!r} keeps the instant of every call"
    if isinstance(limit, TokenBucket) and limit.debt > 0:
        return f"{limit!r} may be overdrawn"
    return None
