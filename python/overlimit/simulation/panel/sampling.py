"""As many events as can be replayed while somebody moves a slider."""

from __future__ import annotations

import html

import numpy as np

from overlimit.simulation.events.column import Column
from overlimit.simulation.events.events import Events

_MOST = 5_000_000


def live_sample(events: Events, most: int = _MOST) -> Events:
    """Return all events, or those of whoever sends most and of some others, as if given in time order.

    Half of the room is for those who send most. If even one of them sends more than there is room for, it is
    the first events of these.
    """
    chosen = events if len(events) <= most else events[_of_some(events._columns[0], most)][:most]
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
        f"({title}): those who send most, and others chosen at random. So the shares are higher than those "
        "of all: <code>replay(events, limits)</code> asks about all."
    )


def _of_some(column: Column, most: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which events are of those who send most, or of others who fit into the rest."""
    counts = column.counts()
    busiest = np.argsort(-counts, kind="stable")
    busy = max(1, int(np.searchsorted(np.cumsum(counts[busiest]), most // 2, side="right")))
    others = np.random.default_rng(0).permutation(busiest[busy:])
    fitting = np.cumsum(counts[others]) <= most - counts[busiest[:busy]].sum()
    chosen = np.zeros(len(counts) + 1, bool)
    chosen[busiest[:busy]] = chosen[others[fitting]] = True
    return chosen[column.codes]


def _compact(column: Column) -> Column:
    """Leave out labels that no event has, which a replay would keep records for."""
    present = np.flatnonzero(column.counts())
    numbers = np.full(len(column.labels) + 1, -1, np.int32)
    numbers[present] = np.arange(len(present), dtype=np.int32)
    return column._replace(codes=numbers[column.codes], labels=column.labels[present])
