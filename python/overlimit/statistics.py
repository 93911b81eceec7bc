"""What ``Limiter.stats`` and the ``stats`` of stores return."""

from __future__ import annotations

from typing import Literal, TypedDict


class FailureCounts(TypedDict):
    """How often the store failed, by kind."""

    timeout: int
    unavailable: int
    config: int
    script: int


class SummedStats(TypedDict):
    """The counts of several limiters: those of ``LimiterStats``, summed."""

    calls: int
    errors: FailureCounts
    timeouts: int
    local: int
    crowded: int
    leased: int
    refusals: int
    asked: int
    held: int
    returned: int
    lapsed: int
    restored: int
    latency: dict[str, int]


class LimiterStats(SummedStats):
    """What ``Limiter.stats`` returns, as that says; the last three keys are there on shared memory alone."""

    breaker: Literal["closed", "open", "half_open"]
    processes: ProcessCounts
    damaged: int
    unlinked: bool


class RateLimitStats(SummedStats):
    """What ``RateLimit.stats`` returns: all policies together, and each by its name."""

    policies: dict[str, SummedStats]


class MemoryStoreStats(TypedDict):
    """What ``MemoryStore.stats`` returns."""

    crowded: int


class ProcessCounts(TypedDict):
    """The processes that have a shared file open: ``attached`` counts those that died with it, too."""

    attached: int
    alive: int


class SharedMemoryStoreStats(MemoryStoreStats):
    """What ``SharedMemoryStore.stats`` returns."""

    processes: ProcessCounts
    damaged: int
    unlinked: bool
