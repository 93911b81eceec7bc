"""A queue that drains at a steady rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit.errors import InvalidLimit
from overlimit.limits.limit import Limit, Terms
from overlimit.limits.quantities import MOST, Seconds, count, duration_label, duration_words, micros, portion


class LeakyBucket(Limit):
    """A queue that lets ``rate`` pass in each period of ``per`` seconds and holds ``capacity`` that wait.

    A period starts with the first call of an idle bucket. The first ``rate`` in a period go at once; those
    behind them are admitted too, and their decision's ``delay`` says how long the caller must wait before it
    proceeds. What finds the queue full is refused.

    With a rate of 1 what proceeds is at least ``per`` seconds apart: write ten a second as 1 per 0.1 s. A
    larger rate counts by the period: across the boundary of two up to ``2 * rate - 1`` may proceed in less
    than ``per`` seconds.

    With a ``burst`` there are no periods: up to ``burst`` go at once, and those behind them ``per / rate``
    seconds apart, so that at most ``burst + rate * t / per`` proceed within any t seconds. It has a state of
    its own, and nothing of it is leased.

    Sources: the leaky bucket as a queue, Jonathan Turner, "New directions in communications (or which way to
    the information age?)" (1986), drained once per period; with a burst the shaper of RFC 2475, section
    2.3.3.3, as the virtual scheduling of ITU-T I.371, Annex A, has it.

    Parameters
    ----------
    rate
        What passes in one period, in cost units. 0 refuses everything and needs a capacity of 0.
    per
        The period in seconds (int, float, Fraction, Decimal or timedelta), rounded to the nearest
        microsecond.
    capacity
        The most that waits, in cost units, beside what passes at once; 0 for no queue.
    burst
        What passes at once before the rest is spaced, in cost units; 0: the ``rate``, once in each period.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range; the message names it.
    """

    __slots__ = ()

    algorithm: ClassVar[str] = "leaky_bucket"
    _refills: ClassVar[bool] = True
    optional_terms: ClassVar[frozenset[str]] = frozenset({"burst", "queue"})

    @checks_arguments()
    def __init__(
        self, rate: int, per: Seconds, *, capacity: int, burst: int = 0, name: str | None = None
    ) -> None:
        drained, period_us, waiting = count(rate, "rate"), micros(per, "per"), count(capacity, "capacity")
        at_once = count(burst, "burst")
        if drained == 0 and waiting:
            raise InvalidLimit(f"rate must be above 0 for a capacity of {waiting}: the queue never drains")
        if at_once:
            _check_paced(drained, period_us, waiting, at_once)
        elif drained + waiting > MOST:
            raise InvalidLimit(f"capacity must be at most 2**53 - 1 together with the rate, not {waiting}")
        self._seal((drained, period_us, waiting, *((at_once,) if at_once else ())), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> LeakyBucket:
        """Build the bucket that a string or a tuple describes; without a queue, the burst is its capacity."""
        if terms.queue is None:
            return cls(terms.limit, terms.per, capacity=terms.burst or 0)
        return cls(terms.limit, terms.per, capacity=terms.queue, burst=terms.burst or 0)

    @property
    def rate(self) -> int:
        """What passes in one period."""
        return self._numbers[0]

    @property
    def capacity(self) -> int:
        """The most that waits."""
        return self._numbers[2]

    @property
    def burst(self) -> int:
        """What passes at once before the rest is spaced; 0: the rate, once in each period."""
        return self._numbers[3] if self._is_paced else 0

    @property
    def quota(self) -> int:
        """What an idle bucket takes at once: the capacity, and the burst or the rate."""
        return self.capacity + (self.burst or self.rate)

    @property
    def window(self) -> float:
        """Seconds in which a full bucket drains, at most 2**53 microseconds."""
        if not self.rate:
            return 0.0
        if self._is_paced:
            return min(-(-self.quota * self._period_us // self.rate), MOST) / 1e6
        return min(-(-self.quota // self.rate) * self._period_us, MOST) / 1e6

    @property
    def _is_paced(self) -> bool:
        return len(self._numbers) > 3

    @property
    def _kept_as(self) -> str:
        return "paced_leaky_bucket" if self._is_paced else self.algorithm

    def _description(self) -> str:
        burst = f"burst-{self.burst}-" if self._is_paced else ""
        return f"{self.rate}-per-{duration_label(self._period_us)}-{burst}queue-{self.capacity}"

    def _phrase(self) -> str:
        phrase = f"{self.rate} per {duration_words(self._period_us)}"
        if self._is_paced:
            return f"{phrase} burst {self.burst} queue {self.capacity}"
        return f"{phrase} burst {self.capacity}" if self.capacity else phrase

    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        quantities = ("rate", "capacity", "burst") if self._is_paced else ("rate", "capacity")
        return {name: portion(getattr(self, name), share) for name in quantities}

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        burst = {"burst": self.burst} if self._is_paced else {}
        return (self.rate,), {"per": self.per, "capacity": self.capacity, **burst}


def _check_paced(rate: int, period_us: int, capacity: int, burst: int) -> None:
    """Raise InvalidLimit unless what waits and goes at once can be counted in exact parts of the rate."""
    if rate == 0:
        raise InvalidLimit(f"rate must be above 0 for a burst of {burst}: the queue never drains")
    most = MOST // (period_us // math.gcd(rate, period_us))
    if burst + capacity > most:
        raise InvalidLimit(
            f"capacity must be at most {most} together with the burst at {rate} per "
            f"{duration_words(period_us)}, not {capacity}"
        )
