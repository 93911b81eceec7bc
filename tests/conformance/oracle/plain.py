"""Limits and penalties as the oracle reads them, for those who have nothing but their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .algorithm import Algorithm
from .buckets import LeakyBucket, TokenBucket
from .natural_periods import Calendar
from .windows import FixedWindow, SlidingLog, SlidingWindow, SlidingWindowCounter

ALGORITHMS: dict[str, type[Algorithm]] = {
    "fixed_window": FixedWindow,
    "sliding_window": SlidingWindow,
    "sliding_log": SlidingLog,
    "sliding_window_counter": SlidingWindowCounter,
    "token_bucket": TokenBucket,
    "leaky_bucket": LeakyBucket,
}


@dataclass(frozen=True)
class PlainLimit:
    """``per``, ``timezone`` and ``week_start`` name the calendar of a fixed window with the third start."""

    algorithm: str
    _numbers: tuple[int, ...]
    name: str | None = None
    per: str = ""
    timezone: str = "UTC"
    week_start: int = 0


@dataclass(frozen=True)
class PlainPenalty:
    """``_numbers``: the levels, extend, and for how long a level is remembered (None: its own length)."""

    _numbers: tuple[tuple[int, ...], bool, int | None]


def algorithm_of(limit: Any) -> Algorithm:
    """The algorithm of a limit of the package or of this module."""
    numbers = limit._numbers
    if limit.algorithm == "fixed_window" and numbers[2] == 2:
        calendar = Calendar(limit.per, limit.timezone, limit.week_start)
        return FixedWindow(numbers[0], numbers[1], numbers[2], calendar)
    return ALGORITHMS[limit.algorithm](*numbers)
