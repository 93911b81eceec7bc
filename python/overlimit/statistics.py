"""What ``Limiter.stats`` and the ``stats`` of stores return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from overlimit import _core

if TYPE_CHECKING:
    from overlimit._core import Store


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


def limiter_stats(
    own: tuple[int, ...], of_store: tuple[int, ...], breaker: str, store: Store
) -> LimiterStats:
    """Return what the core has counted for a limiter, by the layout that it exports; the core calls this."""
    calls, local, crowded, leased, refusals, held, returned, lapsed = own
    places = _core._PLACES
    errors = dict(zip(_core._FAILURES, of_store[places["errors"] :], strict=False))
    bounds = [*map(str, _core._LATENCY_BOUNDS), "inf"]
    stats: dict[str, Any] = {
        "calls": calls,
        "errors": errors,
        "timeouts": errors["timeout"],
        "local": local,
        "crowded": crowded,
        "leased": leased,
        "refusals": refusals,
        "asked": of_store[places["commands"]],
        "held": held,
        "returned": returned,
        "lapsed": lapsed,
        "restored": of_store[places["restored"]],
        "breaker": breaker,
        "latency": dict(zip(bounds, of_store[places["latencies"] :], strict=False)),
    }
    # Where both have counted the same, the limiter's own figures are shown.
    of_all = store.stats() if hasattr(store, "stats") else {}
    return cast(LimiterStats, stats | {name: of_all[name] for name in of_all if name not in stats})
