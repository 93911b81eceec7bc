"""One token bucket that everybody shares."""

from __future__ import annotations

from overlimit._arguments import checks_arguments
from overlimit.clocks import ClockLike
from overlimit.limiter import Limiter
from overlimit.limits import TokenBucket
from overlimit.limits.quantities import Rate
from overlimit.stores import Store

__all__ = ["TokenLimiter"]

_EVERYBODY = "everybody"


class TokenLimiter:
    """At most ``burst`` at once, and ``rate`` per second in the long run, of all callers together.

    There is one bucket per name, full at first. For a bucket per user take ``Limiter`` with ``TokenBucket``.
    While the store fails, a bucket of this process decides instead, until the store answers; the next outage
    finds it as this one left it.

    Parameters
    ----------
    rate
        Tokens per second.
    burst
        The size of the bucket.
    store, clock
        As for ``Limiter``.
    name
        What the counts are kept by, as for ``Limiter``: without one they are this object's own, and a store
        that other processes see needs one.
    local_share
        What part of rate and burst the bucket of this process has, above 0 and at most 1: a fourth for each
        of four processes lets no more pass while the store fails than while it answers.

    Raises InvalidLimit for numbers that cannot be. Thread-safe.

    Source: tokenlimit of go-zero.
    """

    @checks_arguments()
    def __init__(
        self,
        rate: Rate,
        burst: int,
        *,
        store: str | Store = "memory://",
        clock: ClockLike | None = None,
        name: str | None = None,
        local_share: Rate = 1.0,
    ) -> None:
        self._bucket = TokenBucket(rate, per=1, burst=burst)
        self._limiter = Limiter(
            self._bucket, name=name, store=store, clock=clock, on_error="local", local_share=local_share
        )

    def allow(self, n: int = 1) -> bool:
        """Whether ``n`` tokens were there; they are taken then, and none are otherwise.

        Raises ValueError or TypeError for an ``n`` that is negative or no whole number.
        """
        return self._limiter.hit(_EVERYBODY, cost=n).allowed

    def __repr__(self) -> str:
        bucket = self._bucket
        return f"TokenLimiter({bucket.rate!r}, {bucket.burst}, name={self._limiter.name!r})"
