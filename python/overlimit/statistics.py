"""What ``Limiter.stats`` and the ``stats`` of stores return."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = ["FailureCounts", "LimiterStats", "MemoryStoreStats", "ProcessCounts", "SharedMemoryStoreStats"]


class FailureCounts(TypedDict):
    """How often the store failed, by kind."""

    timeout: int
    unavailable: int
    config: int
    script: int


class LimiterStats(TypedDict):
    """How often a limiter asked its store in this process, and with what result.

    ``calls`` says how often the store was asked to decide, refund, lock or reset, and ``errors`` how many of
    these calls failed, by kind; ``timeouts`` are those of them that missed their deadline. ``local`` counts
    the decisions that this process made by itself, and ``crowded`` those that used counts which identifiers
    share because a memory store, or the one that decides in an outage, had no room left. ``latency`` maps an
    upper bound in seconds to how many calls took that long and longer than the bound before, the last one
    being infinity; only stores that wait are timed.

    ``processes``, ``damaged`` and ``unlinked`` are those of ``SharedMemoryStoreStats``; a limiter on another
    store has no such keys.
    """

    calls: int
    errors: FailureCounts
    timeouts: int
    local: int
    crowded: int
    breaker: Literal["closed", "open", "half_open"]
    latency: dict[float, int]
    processes: ProcessCounts
    damaged: int
    unlinked: bool


class MemoryStoreStats(TypedDict):
    """What a memory store has counted.

    ``crowded`` says how many decisions used counts that identifiers share because the store had no room left
    for their own; peeks are not counted.
    """

    crowded: int


class ProcessCounts(TypedDict):
    """The processes that have a shared file open: ``attached`` counts those that died with it, too."""

    attached: int
    alive: int


class SharedMemoryStoreStats(MemoryStoreStats):
    """What a store in shared memory has counted, in all processes together.

    ``damaged`` says how many parts of it grant nothing any more because their memory was found damaged, and
    ``unlinked`` whether the file was removed while this process uses it.
    """

    processes: ProcessCounts
    damaged: int
    unlinked: bool
