"""The metrics as observable instruments of OpenTelemetry.

Its interface has no histogram that is observed, so a histogram is a counter with the upper bound ``le`` as an
attribute, as Prometheus has it, and one of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
except ImportError as error:
    raise ImportError(
        "overlimit.metrics.opentelemetry needs opentelemetry-api: pip install 'overlimit[opentelemetry]'"
    ) from error

from overlimit.metrics.definitions import METRICS, Metric
from overlimit.metrics.readers import ProcessReader
from overlimit.metrics.samples import Histogram, Labels, Number, Sampler

_Observe = Callable[[Labels, Number], "Iterable[tuple[float, dict[str, str]]]"]


def observe(meter: Meter, max_policies: int) -> None:
    """Make the instruments; see ``overlimit.metrics.opentelemetry``."""
    sample = Sampler(ProcessReader(), max_policies)
    for metric in METRICS:
        name = _name_of(metric)
        if metric.kind == "histogram":
            buckets, total = _callback(sample, metric, _buckets), _callback(sample, metric, _total)
            meter.create_observable_counter(
                f"{name}.bucket", [buckets], "1", f"{metric.help} Up to le seconds."
            )
            meter.create_observable_counter(f"{name}.sum", [total], metric.unit, f"{metric.help} In all.")
            continue
        create = meter.create_observable_gauge if metric.kind == "gauge" else meter.create_observable_counter
        create(name, [_callback(sample, metric, _number)], metric.unit or "1", metric.help)


def _name_of(metric: Metric) -> str:
    """Return the name with dots, without the unit, and with ``store`` in that of whatever is of a store."""
    rest = metric.name.removeprefix("overlimit_").removesuffix("_seconds")
    return (
        f"overlimit.store.{rest.removeprefix('store_')}" if "store" in metric.labels else f"overlimit.{rest}"
    )


def _callback(
    sample: Sampler, metric: Metric, observed: _Observe
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def callback(_: CallbackOptions) -> Iterator[Observation]:
        for labels, number in sample()[metric].items():
            attributes = dict(zip(metric.labels, labels, strict=True))
            for value, more in observed(labels, number):
                yield Observation(value, {**attributes, **more})

    return callback


def _number(_: Labels, number: Number) -> Iterator[tuple[float, dict[str, str]]]:
    if not isinstance(number, Histogram):
        yield number, {}


def _total(_: Labels, number: Number) -> Iterator[tuple[float, dict[str, str]]]:
    if isinstance(number, Histogram):
        yield number.total, {}


def _buckets(_: Labels, number: Number) -> Iterator[tuple[float, dict[str, str]]]:
    if isinstance(number, Histogram):
        count = 0
        for bound, more in zip([*map(str, number.bounds), "+Inf"], number.counts, strict=True):
            count += more
            yield count, {"le": bound}
