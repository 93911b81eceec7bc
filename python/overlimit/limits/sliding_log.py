"""At most so many in any interval of a given length, to the microsecond."""

from __future__ import annotations

from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit.limits.limit import LimitPerPeriod
from overlimit.limits.quantities import Seconds, count, micros

_MOST_ENTRIES = 10_000


class SlidingLog(LimitPerPeriod):
    """At most ``limit`` in any interval of ``per`` seconds, exactly.

    Every admitted call is kept with its time and cost for ``per`` seconds: nothing is more precise, and
    nothing takes more memory, up to ``limit`` entries for each identifier. ``SlidingWindow`` makes the same
    promise in bounded memory.

    Source: the sliding log of the Redis documentation's sorted-set rate limiters, as in Peter Hayes, "Better
    Rate Limiting With Redis Sorted Sets"; here a refused call is not logged.

    Parameters
    ----------
    limit
        The most that any interval of ``per`` seconds admits, in cost units, at most 10,000; 0 refuses
        everything.
    per
        The length of the interval in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
        nearest microsecond.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range; the message names it.
    """

    __slots__ = ()

    algorithm: ClassVar[str] = "sliding_log"

    @checks_arguments()
    def __init__(self, limit: int, per: Seconds, *, name: str | None = None) -> None:
        self._seal((count(limit, "limit", _MOST_ENTRIES), micros(per, "per")), name)

    @property
    def window(self) -> float:
        """Seconds until an entry no longer counts: ``per``."""
        return self._period_us / 1e6
