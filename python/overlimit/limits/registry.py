"""The algorithms by name: one line each."""

from __future__ import annotations

from types import MappingProxyType

from overlimit.errors import InvalidLimit
from overlimit.limits.fixed_window import FixedWindow
from overlimit.limits.leaky_bucket import LeakyBucket
from overlimit.limits.limit import Limit
from overlimit.limits.quantities import shown
from overlimit.limits.sliding_log import SlidingLog
from overlimit.limits.sliding_window import SlidingWindow
from overlimit.limits.sliding_window_counter import SlidingWindowCounter
from overlimit.limits.token_bucket import TokenBucket

__all__ = ["ALGORITHMS", "algorithm_named"]

ALGORITHMS: MappingProxyType[str, type[Limit]] = MappingProxyType(
    {
        FixedWindow.algorithm: FixedWindow,
        SlidingWindow.algorithm: SlidingWindow,
        SlidingLog.algorithm: SlidingLog,
        SlidingWindowCounter.algorithm: SlidingWindowCounter,
        TokenBucket.algorithm: TokenBucket,
        LeakyBucket.algorithm: LeakyBucket,
    }
)
"""Every algorithm by the name that ``Limiter(algorithm=...)`` takes."""


def algorithm_named(name: object) -> type[Limit]:
    """Return the class of the algorithm called ``name``; else raise InvalidLimit listing the known ones."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        known = ", ".join(repr(known) for known in ALGORITHMS)
        raise InvalidLimit(f"algorithm must be None or one of {known}, not {shown(name)}")
    return ALGORITHMS[name]
