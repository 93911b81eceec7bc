"""As many events as can be replayed while somebody moves a slider."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from overlimit.simulation.events.events import Events

if TYPE_CHECKING:
    from overlimit.simulation.events.column import Column

__all__ = ["live_sample", "sample_text"]

_WANTED = 500_000
_MOST = 1_000_000


def live_sample(events: Events) -> Events:
    """Return all events of some identifiers, or all there are if they are few, as if given in time order.

    If even these are many, because few identifiers send most of the events, they are the first of them.
    """
    chosen = events if len(events) <= _MOST else events.sample(_WANTED / len(events))[:_MOST]
    columns = [_compact(column) for column in chosen._columns]
    return Events._of(chosen.times, columns, chosen.costs, chosen._labels)


def sample_text(events: Events, sample: Events) -> str:
    """Return HTML that says what the panel asks about: all events, or which part of them."""
    if len(sample) == len(events):
        return ""
    names = [int(np.count_nonzero(each._columns[0].counts())) for each in (sample, events)]
    title = html.escape(events._columns[0].title)
    return (
        f"A sample: {len(sample):,} of {len(events):,} events, of {names[0]:,} of {names[1]:,} identifiers "
        f"({title}), chosen at random. Those who send most may not be among them, and then the shares are "
        "far lower than those of all: <code>replay(events, limits)</code> asks about all."
    )


def _compact(column: Column) -> Column:
    """Leave out labels that no event has, which a replay would keep records for."""
    present = np.flatnonzero(column.counts())
    numbers = np.full(len(column.labels) + 1, -1, np.int32)
    numbers[present] = np.arange(len(present), dtype=np.int32)
    return column._replace(codes=numbers[column.codes], labels=column.labels[present])
