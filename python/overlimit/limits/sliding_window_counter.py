"""About so many in an interval of a given length, from two counters."""

from __future__ import annotations

from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit.limits.limit import LimitPerPeriod
from overlimit.limits.quantities import Seconds, count, micros


class SlidingWindowCounter(LimitPerPeriod):
    """About ``limit`` in an interval of ``per`` seconds: an approximation in two counters.

    Windows are aligned to whole multiples of ``per`` since 1970-01-01 UTC. What the window before admitted
    is taken as spread evenly over it, and counts by the part of it that the last ``per`` seconds still cover.
    When it was not spread evenly an interval may admit more than ``limit``, and less than twice as much;
    ``SlidingWindow`` never does.

    Source: Julien Desgats, "How we built rate limiting capable of scaling to millions of domains"
    (Cloudflare, 2017).

    Parameters
    ----------
    limit
        About the most that an interval of ``per`` seconds admits, in cost units; 0 refuses everything.
    per
        The length of a window in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
        nearest microsecond.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range; the message names it.
    """

    __slots__ = ()

    algorithm: ClassVar[str] = "sliding_window_counter"

    @checks_arguments()
    def __init__(self, limit: int, per: Seconds, *, name: str | None = None) -> None:
        self._seal((count(limit, "limit"), micros(per, "per")), name)

    @property
    def window(self) -> float:
        """Seconds from the start of a window until it no longer counts: twice ``per``."""
        return 2 * self._period_us / 1e6
