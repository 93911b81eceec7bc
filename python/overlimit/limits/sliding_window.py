"""At most so many in any interval of a given length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from overlimit._core import default_precision_us
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.limit import LimitPerPeriod, Terms
from overlimit.limits.quantities import Seconds, count, micros, seconds

MOST_BLOCKS = 4096


class SlidingWindow(LimitPerPeriod):
    """At most ``limit`` in any interval of ``per`` seconds, whatever the traffic.

    Time is cut in blocks of ``precision`` seconds, and what a block admitted counts until the whole block is
    older than ``per``: exact up to one block, always to the safe side.

    Source: the sub-buckets of Josiah Carlson, "Introduction to rate limiting with Redis", with one block more
    so that the interval is never short.

    Parameters
    ----------
    limit
        The most that any interval of ``per`` seconds admits, in cost units; 0 refuses everything.
    per
        The length of the interval in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
        nearest microsecond.
    precision
        The length of a block in seconds; it must divide ``per`` into at most 4096 blocks. Default: the
        finest that divides ``per`` into at most 50.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range, or the precision does not divide the interval;
        the message names the argument.
    """

    __slots__ = ()

    algorithm: ClassVar[str] = "sliding_window"
    optional_terms: ClassVar[frozenset[str]] = frozenset({"precision"})

    @checks_arguments()
    def __init__(
        self, limit: int, per: Seconds, *, precision: Seconds | None = None, name: str | None = None
    ) -> None:
        most, period_us = count(limit, "limit"), micros(per, "per")
        self._seal((most, period_us, _precision_us(precision, period_us)), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> SlidingWindow:
        """Build the window that a string or a tuple describes."""
        return cls(terms.limit, terms.per, precision=terms.precision)

    @property
    def precision(self) -> float:
        """The length of a block in seconds, the default resolved."""
        return seconds(self._numbers[2])

    @property
    def window(self) -> float:
        """Seconds from the start of a block until it no longer counts: ``per`` and one block."""
        return (self._period_us + self._numbers[2]) / 1e6

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        positional, by_name = super()._arguments()
        if self._numbers[2] == default_precision_us(self._period_us):
            return positional, by_name
        return positional, {**by_name, "precision": self.precision}


def _precision_us(precision: Seconds | None, period_us: int) -> int:
    if precision is None:
        return default_precision_us(period_us)
    precision_us = micros(precision, "precision")
    blocks, rest = divmod(period_us, precision_us)
    if rest or blocks > MOST_BLOCKS:
        raise InvalidLimit(
            f"precision must divide per ({seconds(period_us)} s) into 1 to {MOST_BLOCKS} whole blocks, "
            f"not {short_repr(precision)}"
        )
    return precision_us
