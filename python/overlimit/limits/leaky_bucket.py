"""A queue that drains at a steady rate."""

from __future__ import annotations

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

    Source: the leaky bucket as a queue, Jonathan Turner, "New directions in communications (or which way to
    the information age?)" (1986), drained once per period.

    Parameters
    ----------
    rate
        What passes in one period, in cost units. 0 refuses everything and needs a capacity of 0.
    per
        The period in seconds (int, float, Fraction, Decimal or timedelta), rounded to the nearest
        microsecond.
    capacity
        The most that waits, in cost units, beside the ``rate`` that passes at once; 0 for no queue.
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
    optional_terms: ClassVar[frozenset[str]] = frozenset({"burst"})

    @checks_arguments(synonyms={"burst": "capacity"})
    def __init__(self, rate: int, per: Seconds, *, capacity: int, name: str | None = None) -> None:
        drained, period_us, waiting = count(rate, "rate"), micros(per, "per"), count(capacity, "capacity")
        if drained == 0 and waiting:
            raise InvalidLimit(f"rate must be above 0 for a capacity of {waiting}: the queue never drains")
        if drained + waiting > MOST:
            raise InvalidLimit(f"capacity must be at most 2**53 - 1 together with the rate, not {waiting}")
        self._seal((drained, period_us, waiting), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> LeakyBucket:
        """Build the bucket that a string or a tuple describes; the limit is the rate, the burst the room."""
        return cls(terms.limit, terms.per, capacity=terms.burst or 0)

    @property
    def rate(self) -> int:
        """What passes in one period."""
        return self._numbers[0]

    @property
    def capacity(self) -> int:
        """The most that waits."""
        return self._numbers[2]

    @property
    def quota(self) -> int:
        """What an idle bucket takes at once: the capacity and the rate."""
        return self.capacity + self.rate

    @property
    def window(self) -> float:
        """Seconds in which a full bucket drains, at most 2**53 microseconds."""
        rate, period_us, _ = self._numbers
        return min(-(-self.quota // rate) * period_us, MOST) / 1e6 if rate else 0.0

    def _description(self) -> str:
        return f"{self.rate}-per-{duration_label(self._period_us)}-queue-{self.capacity}"

    def _phrase(self) -> str:
        phrase = f"{self.rate} per {duration_words(self._period_us)}"
        return f"{phrase} burst {self.capacity}" if self.capacity else phrase

    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        return {"rate": portion(self.rate, share), "capacity": portion(self.capacity, share)}

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        return (self.rate,), {"per": self.per, "capacity": self.capacity}
