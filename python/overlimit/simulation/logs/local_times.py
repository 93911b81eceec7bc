"""From what the clocks of a time zone showed to instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.events.instants import Micros

_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000
_STEP = timedelta(hours=6)
"""No zone has changed its clocks twice within as long."""


def instants_of_local(local: Micros, zone: tzinfo) -> tuple[Micros, npt.NDArray[np.bool_]]:
    """Return the instants at which clocks showed some times, and which of these no clock has ever shown.

    Both are in microseconds, ``local`` as if the clocks were in UTC. A time that clocks showed twice is the
    earlier instant.
    """
    if not len(local) or zone is UTC:
        return local, np.zeros(len(local), bool)
    first, last = np.array([local.min(), local.max()]).view("datetime64[us]").astype("datetime64[Y]").tolist()
    years = [_changes(zone, year) for year in range(first.year - 1, last.year + 2)]
    changes = [change for year in years for change in year.changes]
    offsets = np.array([years[0].offset, *(change.after for change in changes)], np.int64) * _SECOND
    # Clocks show every time before the later of both sides of a change by the old offset.
    ends = [change.at + max(change.before, change.after) for change in changes]
    gaps = [max(change.after - change.before, 0) for change in changes]
    until = np.array(ends, np.int64) * _SECOND
    period = np.searchsorted(until, local, side="right")
    skipped_from = np.append(until - np.array(gaps, np.int64) * _SECOND, np.iinfo(np.int64).max)
    return local - offsets[period], local >= skipped_from[period]


class _Change(NamedTuple):
    """A change of a zone's offset from UTC, in seconds: when, from what and to what."""

    at: int
    before: int
    after: int


class _Year(NamedTuple):
    """The offset at the beginning of a year in UTC, and the changes in it."""

    offset: int
    changes: list[_Change]


@lru_cache(1024)
def _changes(zone: tzinfo, year: int) -> _Year:
    changes = []
    start, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)
    first = before = _offset(zone, start)
    while start < end:
        after = _offset(zone, start + _STEP)
        if after != before:
            changes.append(_change(zone, start, before, after))
        start, before = start + _STEP, after
    return _Year(first, changes)


def _change(zone: tzinfo, start: datetime, before: int, after: int) -> _Change:
    low, high = 0, int(_STEP.total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, start + timedelta(seconds=middle)) == before:
            low = middle
        else:
            high = middle
    return _Change(int((start - _EPOCH).total_seconds()) + high, before, after)


def _offset(zone: tzinfo, utc: datetime) -> int:
    """Return how many seconds the clocks of a zone are ahead of UTC at an instant."""
    local = utc.replace(tzinfo=UTC).astimezone(zone)
    return int((local.replace(tzinfo=None) - utc).total_seconds())
