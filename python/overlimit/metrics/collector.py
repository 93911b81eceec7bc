"""The metrics in a registry of prometheus_client."""

from __future__ import annotations

import os
from collections.abc import Iterable

try:
    import prometheus_client
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector, CollectorRegistry
except ImportError as error:
    raise ImportError(
        "overlimit.metrics.prometheus needs prometheus_client: pip install 'overlimit[prometheus]'"
    ) from error

from overlimit.metrics.definitions import METRICS, Metric
from overlimit.metrics.readers import reader_of
from overlimit.metrics.samples import Histogram, Labels, Number, Sampler


def register(
    registry: CollectorRegistry | None, directory: str | os.PathLike[str] | None, max_policies: int
) -> Collector:
    """Register a collector of all metrics; see ``overlimit.metrics.prometheus``."""
    given = directory if directory is not None else os.environ.get("PROMETHEUS_MULTIPROC_DIR") or None
    collector = _OverlimitCollector(Sampler(reader_of(given), max_policies))
    (prometheus_client.REGISTRY if registry is None else registry).register(collector)
    return collector


class _OverlimitCollector(Collector):
    def __init__(self, sample: Sampler) -> None:
        self._sample = sample

    def describe(self) -> Iterable[Family]:
        """Return the families without samples, so that the registry refuses to have them twice."""
        return [_family(metric, {}) for metric in METRICS]

    def collect(self) -> Iterable[Family]:
        """Return what was counted until now."""
        return [_family(metric, series) for metric, series in self._sample().items()]


def _family(metric: Metric, series: dict[Labels, Number]) -> Family:
    if metric.kind == "histogram":
        histograms = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, number in series.items():
            if isinstance(number, Histogram):
                histograms.add_metric(labels, _buckets(number), number.total)
        return histograms
    kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    numbers = kind(metric.name, metric.help, labels=metric.labels)
    for labels, number in series.items():
        if not isinstance(number, Histogram):
            numbers.add_metric(labels, number)
    return numbers


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the counts up to each bound, as Prometheus has them."""
    names = [*map(str, histogram.bounds), "+Inf"]
    count = 0
    buckets: list[tuple[str, float]] = []
    for name, more in zip(names, histogram.counts, strict=True):
        count += more
        buckets.append((name, count))
    return buckets
