"""One token bucket that all callers share."""

from __future__ import annotations

from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit.clocks import ClockLike
from overlimit.limiter import Limiter
from overlimit.limits import TokenBucket
from overlimit.limits.quantities import Rate
from overlimit.stores import Store

_EVERYBODY = "everybody"


class TokenLimiter(Initialised):
    """At most ``burst`` at once, and ``rate`` per second in the long run, of all callers together.

    There is one bucket per name, full at first. For a bucket per user take ``Limiter`` with ``TokenBucket``.
    While the store fails, a bucket of this process decides instead; it keeps its tokens from one outage to
    the next.

    Parameters
    ----------
    rate
        Tokens per second.
    burst
        The size of the bucket.
    store, clock, name
        As for ``Limiter``.
    local_share
        The part of rate and burst that the bucket of this process has, above 0 and at most 1: with 0.25 four
        processes admit no more while the store fails than while it answers.

    Notes
    -----
    Raises InvalidLimit for wrong numbers. Thread-safe.

    Source: tokenlimit of go-zero.
    """

    _set_last: ClassVar[str] = "_limiter"

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

        Raises ValueError or TypeError unless ``n`` is a whole number from 0.
        """
        return self._limiter.hit(_EVERYBODY, cost=n).allowed

    def __repr__(self) -> str:
        bucket = self._bucket
        return f"TokenLimiter({bucket.rate!r}, {bucket.burst}, name={self._limiter.name!r})"
