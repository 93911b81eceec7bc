"""Identifiers as numbers: which of the distinct ones each event has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]


class Column(NamedTuple):
    """A column of identifiers, each held once.

    ``codes`` has the number of each event's identifier in ``labels``, or -1. Labels are as
    ``Decision.identifier`` shows them, such as ``"ip:203.0.113.7"``: texts, or bytes where they are no UTF-8.
    In a part of some events there may be labels that none of them has.
    """

    name: str | None
    codes: Codes
    labels: npt.NDArray[np.object_]

    @property
    def title(self) -> str:
        """What the column is called in tables."""
        return self.name or "identifier"

    def take(self, which: slice | npt.NDArray[Any]) -> Column:
        """Return the column of some of the events."""
        return self._replace(codes=self.codes[which])

    def values(self) -> npt.NDArray[np.object_]:
        """Return the label of each event; None where it has none."""
        return np.append(self.labels, [None])[self.codes]

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how many events have each label."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))


def concatenated(columns: Sequence[Column]) -> Column:
    """Return columns of one name as one, one after the other; equal labels become the same."""
    numbers: dict[object, int] = {}
    parts = []
    for column in columns:
        renumbered = [numbers.setdefault(label, len(numbers)) for label in column.labels.tolist()]
        parts.append(np.array([*renumbered, -1], np.int32)[column.codes])
    labels = np.fromiter(numbers, object, len(numbers))
    return Column(columns[0].name, np.concatenate(parts), labels)
