"""The limits: immutable values, and the texts and tuples that describe them."""

from __future__ import annotations

from overlimit.limits.fixed_window import FixedWindow
from overlimit.limits.grammar import LimitLike, LimitsLike, as_limits, parse
from overlimit.limits.leaky_bucket import LeakyBucket
from overlimit.limits.limit import Limit
from overlimit.limits.registry import ALGORITHMS
from overlimit.limits.sliding_log import SlidingLog
from overlimit.limits.sliding_window import SlidingWindow
from overlimit.limits.sliding_window_counter import SlidingWindowCounter
from overlimit.limits.token_bucket import TokenBucket

__all__ = [
    "ALGORITHMS",
    "FixedWindow",
    "LeakyBucket",
    "Limit",
    "LimitLike",
    "LimitsLike",
    "SlidingLog",
    "SlidingWindow",
    "SlidingWindowCounter",
    "TokenBucket",
    "as_limits",
    "parse",
]
