"""What ``Limiter.stats`` returns."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["FailureCounts", "LimiterStats"]


class FailureCounts(TypedDict):
    """How often the store failed, by kind."""

    timeout: int
    unavailable: int
    config: int
    script: int


class LimiterStats(TypedDict):
    """How a limiter has got on with its store, in this process.

    ``calls`` says how often the store was asked to decide, refund, lock or reset, and ``errors`` how many of
    these calls failed, by kind; ``timeouts`` are those of them that missed their deadline. ``local`` counts
    the decisions that this process made by itself. ``latency`` maps an upper bound in seconds to how many
    calls took that long and longer than the bound before, the last one being infinity; only stores that wait
    are timed.
    """

    calls: int
    errors: FailureCounts
    timeouts: int
    local: int
    breaker: Literal["closed", "open", "half_open"]
    latency: dict[float, int]
