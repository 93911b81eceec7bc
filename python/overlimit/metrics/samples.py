"""From counters to samples: what each metric says now, with its labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import NamedTuple, TypeAlias

from overlimit import _core
from overlimit._logging.limiters import one_of_each_name
from overlimit._options import whole_number
from overlimit.errors import StoreError
from overlimit.limits_file import followed_files
from overlimit.metrics import definitions as d
from overlimit.metrics import slots as s
from overlimit.metrics.readers import Reader, Reading
from overlimit.metrics.slots import AT
from overlimit.stores.memory import memory_stores
from overlimit.stores.shared_memory import shared_memory_stores

OTHER = "(other)"
_BREAKER_SECONDS = 60
"""For so long after a call that failed its breaker is shown as open."""
_MOST_LIMITS = 32
"""So many limits of a policy have series of their own."""


class Histogram(NamedTuple):
    """Durations in seconds."""

    bounds: tuple[float, ...]
    counts: list[int]
    """By bound, each without those below the bound before; the last is above all bounds."""
    total: float

    def plus(self, other: Histogram) -> Histogram:
        """Return both in one."""
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.bounds, counts, self.total + other.total)


Labels: TypeAlias = "tuple[str, ...]"
Number: TypeAlias = "float | Histogram"
Samples: TypeAlias = "dict[d.Metric, dict[Labels, Number]]"


class Sampler:
    """Makes samples of what a reader reads, with a bounded number of series."""

    def __init__(self, reader: Reader, max_policies: int) -> None:
        number = whole_number(max_policies)
        if number is None:
            raise TypeError(f"max_policies must be a whole number, not {max_policies!r}")
        if number < 1:
            raise ValueError(f"max_policies must be at least 1, not {number}")
        self._reader, self._max_policies = reader, number

    def __call__(self) -> Samples:
        """Return the samples of all metrics, those without any included."""
        samples: Samples = {metric: {} for metric in d.METRICS}
        with self._reader.reading() as reading:
            for key, numbers in s.summed([reading.dead, *reading.living]).items():
                policy, limit = self._admitted(key, reading)
                for metric, labels, number in _SAMPLES_OF[key.kind](policy, limit, numbers):
                    _add(samples[metric], labels, number)
            _add(samples[d.BUILD], (_core.__version__,), 1)
            for labels, number in _breakers(reading):
                _add(samples[d.BREAKER], labels, number)
            for name, held in _held_units():
                policy, _ = self._admitted(s.Key("p", name), reading)
                for metric in (d.GRANTED, d.RETURNED, d.LAPSED):
                    _add(samples[metric], (policy,), 0)
                if not self._reader.is_shared:
                    _add(samples[d.LEASED], (policy,), held)
        for file in () if self._reader.is_shared else followed_files():
            _add(samples[d.FILE_ERRORS], (file.path,), file.errors)
        for metric, labels, number in _of_stores(with_memory=not self._reader.is_shared):
            _add(samples[metric], labels, number)
        return samples

    def _admitted(self, key: s.Key, reading: Reading) -> tuple[str, str]:
        """Return the labels of a slot: its own, or those of all others."""
        if key.kind == "s":
            return key.label, ""
        known = reading.admitted
        if key.label not in known:
            if len(known) >= self._max_policies:
                return OTHER, OTHER
            known[key.label] = []
        limits = known[key.label]
        if key.limit and key.limit not in limits:
            if len(limits) >= _MOST_LIMITS:
                return key.label, OTHER
            limits.append(key.limit)
        return key.label, key.limit


def _add(series: dict[Labels, Number], labels: Labels, number: Number) -> None:
    before = series.get(labels)
    if isinstance(before, Histogram) and isinstance(number, Histogram):
        series[labels] = before.plus(number)
    elif before is None or isinstance(before, Histogram) or isinstance(number, Histogram):
        series[labels] = number
    else:
        series[labels] = before + number


_Sample: TypeAlias = "tuple[d.Metric, Labels, Number]"


# What is known beforehand begins at 0: Prometheus sees no increase in the first number of a series.
def _of_limit(policy: str, limit: str, numbers: list[int]) -> Iterator[_Sample]:
    outcomes = list(product(_core._SOURCES, s.STATUSES))
    for (source, status), count in zip(outcomes, s.several(numbers, "decisions", len(outcomes)), strict=True):
        if not count and source != "store":
            continue
        if source == "error":  # which no limit has refused
            yield d.DECISIONS, (policy, "", "denied" if status == "over" else status, source), count
        else:
            yield d.DECISIONS, (policy, limit, status, source), count
    if numbers[AT["shadow"]]:
        yield d.SHADOW_REFUSALS, (policy, limit), numbers[AT["shadow"]]
    yield d.CROWDED, (policy,), 0


def _of_policy(policy: str, _: str, numbers: list[int]) -> Iterator[_Sample]:
    yield d.CROWDED, (policy,), numbers[AT["crowded"]]
    if numbers[AT["waits_begun"]]:
        waits = _histogram(_core._WAIT_BOUNDS, numbers, "waits", "wait_micros")
        yield d.WAITS, (policy,), waits
        yield d.WAITING, (policy,), max(0, numbers[AT["waits_begun"]] - sum(waits.counts))
    if numbers[AT["granted"]]:
        yield d.GRANTED, (policy,), numbers[AT["granted"]]
        yield d.RETURNED, (policy,), numbers[AT["returned"]]
        yield d.LAPSED, (policy,), numbers[AT["lapsed"]]


def _of_store(store: str, _: str, numbers: list[int]) -> Iterator[_Sample]:
    failures = _core._FAILURES
    for kind, count in zip(failures, s.several(numbers, "errors", len(failures)), strict=True):
        yield d.ERRORS, (store, kind), count
    latencies = _histogram(_core._LATENCY_BOUNDS, numbers, "latencies", "latency_micros")
    if any(latencies.counts):
        yield d.LATENCY, (store,), latencies
    if numbers[AT["commands"]]:
        yield d.COMMANDS, (store,), numbers[AT["commands"]]
        yield d.RESTORED, (store,), numbers[AT["restored"]]


_SAMPLES_OF: dict[str, Callable[[str, str, list[int]], Iterator[_Sample]]] = {
    "l": _of_limit,
    "p": _of_policy,
    "s": _of_store,
}


def _histogram(bounds: tuple[float, ...], numbers: list[int], name: str, micros: str) -> Histogram:
    return Histogram(bounds, s.several(numbers, name, len(bounds) + 1), numbers[AT[micros]] / 1e6)


def _breakers(reading: Reading) -> Iterator[tuple[Labels, Number]]:
    """Yield one for the state of each process, and 0 for all others.

    Of a process that has not called since its breaker opened, the state is soon not known any more.
    """
    since = time.time() - _BREAKER_SECONDS
    for process in reading.living:
        for key, numbers in process.items():
            if key.kind == "s":
                for place, state in enumerate(_core._BREAKER_STATES):
                    is_known = place == 0 or numbers[AT["failed_at"]] >= since
                    yield (key.label, state), int(numbers[AT["breaker"]] == place and is_known)


def _held_units() -> Iterator[tuple[str, int]]:
    """Yield the policies of this process that may lease, with the units that it holds of each."""
    for limiter in one_of_each_name(lambda limiter: limiter.store._longest_lease > 0):
        yield limiter.name or "", limiter.stats()["held"]


def _of_stores(*, with_memory: bool) -> Iterable[_Sample]:
    """Yield what memory is in use: that of this process, unless others have their own, and that all share."""
    for store in memory_stores() if with_memory else ():
        yield from _of_memory("memory://", store._usage())
    for endpoint, shared in {store.endpoint: store for store in shared_memory_stores()}.items():
        try:
            yield from _of_memory(endpoint, shared._usage())
        except StoreError:
            continue  # as its calls do, whose errors are counted


def _of_memory(store: str, usage: dict[str, int]) -> Iterator[_Sample]:
    yield d.KEYS, (store,), usage["keys"]
    yield d.MAX_KEYS, (store,), usage["max_keys"]
    yield d.BYTES, (store,), usage["bytes"]
    yield d.MAX_BYTES, (store,), usage["max_bytes"]
