"""Reads the metrics of a registry of prometheus_client as its exporter shows them."""

from __future__ import annotations

from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

Key: TypeAlias = "tuple[Any, ...]"
"""The name of a sample, and its labels in order."""


def samples_in(text: str) -> dict[Key, float]:
    """Return the samples of an exposition, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scraped:
    """The metrics of a registry, whose counters began at zero when this was made."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._before = self.now()

    def now(self) -> dict[Key, float]:
        return samples_in(generate_latest(self._registry).decode())

    def of(self, name: str, **labels: str) -> float:
        key = (name, *sorted(labels.items()))
        return self.now().get(key, 0) - self._before.get(key, 0)

    def series(self, name: str) -> dict[Key, float]:
        return {key[1:]: value for key, value in self.now().items() if key[0] == name}
