"""Flask-Limiter's strategies, and the limits that strings mean under them."""

from __future__ import annotations

import logging
from types import MappingProxyType

from overlimit import InvalidLimit
from overlimit._messages.caller import frames_to_caller
from overlimit.limits import (
    FixedWindow,
    Limit,
    LimitsLike,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    as_limits,
)

_log = logging.getLogger("overlimit")

_MOVING_WINDOW = "moving-window"

STRATEGIES = MappingProxyType(
    {
        "fixed-window": FixedWindow.algorithm,
        _MOVING_WINDOW: SlidingLog.algorithm,
        "sliding-window-counter": SlidingWindowCounter.algorithm,
    }
)
"""The algorithm that a strategy stands for."""


def algorithm_of(strategy: object) -> str:
    """Return the name of a strategy's algorithm; raises ValueError listing the strategies."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"a strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}")
    return STRATEGIES[strategy]


def limits_under(strategy: str, limits: LimitsLike) -> tuple[Limit, ...]:
    """Return the limits as ``as_limits`` does, with strings and tuples read by a strategy.

    A log keeps each request, up to 10,000, so a larger limit under ``"moving-window"`` becomes a sliding
    window, which is exact up to one block and never admits more; a warning says so under ``overlimit``.
    Raises InvalidLimit for invalid limits, and ValueError for an unknown strategy.
    """
    try:
        return as_limits(limits, algorithm_of(strategy))
    except InvalidLimit:
        if strategy != _MOVING_WINDOW:
            raise
        found = _logs_or_windows(limits)
        if found is None:
            raise
    return found


def _logs_or_windows(limits: LimitsLike) -> tuple[Limit, ...] | None:
    """Return the limits with windows for those that are too large for a log; None if there are none."""
    given = {id(part) for part in limits} if isinstance(limits, (list, tuple)) else set()
    windows = as_limits(limits, SlidingWindow.algorithm)
    found = tuple(limit if id(limit) in given else _log_or_window(limit) for limit in windows)
    too_large = [limit for limit in found if id(limit) not in given and isinstance(limit, SlidingWindow)]
    for limit in too_large:
        _log.warning(
            "%s is too much for a log of every request: it is a sliding window instead",
            limit.label,
            stacklevel=frames_to_caller(),
        )
    return found if too_large else None


def _log_or_window(limit: Limit) -> Limit:
    if not isinstance(limit, SlidingWindow):
        return limit
    try:
        return SlidingLog(limit.limit, limit.per)
    except InvalidLimit:
        return limit
