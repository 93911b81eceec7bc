"""More traffic of the same kind: more clients, or clients that ask more often."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.identifiers import Codes, Column
from overlimit.simulation.events.instants import Micros

Rows = npt.NDArray[np.int64]

_SECOND_US = 1_000_000
_PAUSE_US = 60 * _SECOND_US
"""What is farther apart is not of one burst."""
_FAR_US = 90 * 60 * _SECOND_US
"""A third of this is the farthest that a burst is moved."""


class Scaled(NamedTuple):
    """Which events there are, some more than once, when, and their columns if these are others."""

    rows: Rows
    times: Micros
    columns: list[Column] | None = None


class _Neighbours(NamedTuple):
    """Events by their clients, in the order of times; and how far the client's neighbouring ones are."""

    order: Rows
    times: Micros
    before: Micros
    after: Micros

    @property
    def nearest(self) -> Micros:
        return np.minimum(self.before, self.after)


def more_clients(
    times: Micros, clients: Codes, columns: Sequence[Column], factor: float, random: np.random.Generator
) -> Scaled:
    """Return the events of so many times as many clients, the first of whom are those that there are."""
    everybody = int(clients.max(initial=-1)) + 1
    present = np.unique(clients)
    rows, moved, sets = [np.arange(len(times))], [times], [np.zeros(len(times), np.int32)]
    neighbours = _neighbours(times, clients)
    for number in range(1, math.ceil(factor)):
        chosen = np.zeros(everybody, bool)
        chosen[random.permutation(present)[: round(min(1.0, factor - number) * len(present))]] = True
        which = np.flatnonzero(chosen[clients])
        rows.append(which)
        moved.append(_moved(neighbours, times, random)[which])
        sets.append(np.full(len(which), number, np.int32))
    whole, number_of = np.concatenate(rows), np.concatenate(sets)
    return Scaled(whole, np.concatenate(moved), [_renamed(each, whole, number_of) for each in columns])


def more_requests(times: Micros, clients: Codes, factor: float, random: np.random.Generator) -> Scaled:
    """Return so many times as many events of each client, the others between those that there are."""
    counts = np.floor(factor + random.random(len(times))).astype(np.int64)
    rows = np.repeat(np.arange(len(times)), counts)
    is_first = np.r_[True, rows[1:] != rows[:-1]][: len(rows)]
    neighbours = _neighbours(times, clients)
    room = np.empty(len(times))
    room[neighbours.order] = np.minimum(neighbours.nearest, _FAR_US) / 2
    offsets = np.where(is_first, 0, random.uniform(-1, 1, len(rows)) * room[rows])
    return Scaled(rows, _within(times[rows] + np.rint(offsets).astype(np.int64), times))


def checked_scale(factor: object, by: object) -> float:
    """Return a factor; raise TypeError or ValueError for anything else, and for an unknown ``by``."""
    if by not in ("clients", "requests"):
        raise ValueError(
            "by must be 'clients' (so many times as many, each with a limit of its own) or 'requests' (each "
            f"client so many times as often), not {short_repr(by)}"
        )
    if isinstance(factor, bool) or not isinstance(factor, (int, float, np.number)):
        raise TypeError(f"factor must be a number, such as 3, not {short_repr(factor)}")
    if not 0 < factor < math.inf:
        raise ValueError(f"factor must be a number above 0, not {short_repr(factor)}")
    if factor < 1 and by == "clients":
        raise ValueError(f"factor must be 1 or more: events.sample({factor!r}) returns some of the clients")
    return float(factor)


def _neighbours(times: Micros, clients: Codes) -> _Neighbours:
    order = np.argsort(clients, kind="stable")
    of_each, ordered = clients[order], times[order]
    gaps = np.where(of_each[1:] == of_each[:-1], np.diff(ordered), _FAR_US)
    ends = np.full(min(1, len(times)), _FAR_US)
    return _Neighbours(order, ordered, np.r_[ends, gaps], np.r_[gaps, ends])


def _moved(neighbours: _Neighbours, times: Micros, random: np.random.Generator) -> Micros:
    """Return other times of the same kind.

    Bursts stay bursts: each is moved by up to a third of the pauses around it and half an hour, and events in
    it by up to a quarter of the gaps around them. So none comes before one that was before it, and the hours
    of the day stay as busy as they are.
    """
    order, ordered, before, after = neighbours
    begins = before > _PAUSE_US
    firsts = np.flatnonzero(np.r_[True, begins[1:]][: len(order)] | (before == _FAR_US))
    lasts = np.r_[firsts[1:] - 1, len(order) - 1][: len(firsts)]
    earlier = np.minimum(np.minimum(before[firsts], _FAR_US) / 3, ordered[firsts] - times[:1])
    later = np.minimum(np.minimum(after[lasts], _FAR_US) / 3, times[-1:] - ordered[lasts])
    shifts = np.repeat(random.uniform(-earlier, later), lasts - firsts + 1)
    near = np.where(neighbours.nearest <= _PAUSE_US, neighbours.nearest, 0)
    jitter = random.uniform(-1, 1, len(order)) * near / 4
    moved = np.empty_like(times)
    moved[order] = ordered + np.rint(shifts + jitter).astype(np.int64)
    return _within(moved, times)


def _within(moved: Micros, times: Micros) -> Micros:
    return np.clip(moved, times[0], times[-1]) if len(times) else moved


def _renamed(column: Column, rows: Rows, sets: Codes) -> Column:
    """Return the column of rows, those of other sets under new names; no set has a name that there is."""
    taken = max((int(_numbered(label) or 1) for label in column.labels.tolist()), default=1)
    labels = [column.labels]
    for number in range(1, int(sets.max(initial=0)) + 1):
        ending = f"#{taken + number}"
        new = [each + (ending.encode() if isinstance(each, bytes) else ending) for each in column.labels]
        labels.append(np.fromiter(new, object, len(new)))
    codes = column.codes[rows]
    codes = np.where(codes < 0, codes, codes + sets * np.int32(len(column.labels)))
    return Column(column.name, codes, np.concatenate(labels)).compact()


def _numbered(label: Any) -> str | None:
    text = label.decode("latin-1") if isinstance(label, bytes) else label
    found = re.search(r"#([0-9]{1,9})$", text)
    return found and found[1]
