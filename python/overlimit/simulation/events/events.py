"""What happened: when, by whom, at what cost. The input of every simulation."""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from overlimit._display import html_table
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import printable, short_repr
from overlimit.limits.calendars import zone_named
from overlimit.simulation.events.bad_lines import BadLines
from overlimit.simulation.events.costs import Costs, costs_of
from overlimit.simulation.events.given import in_one_order
from overlimit.simulation.events.identifiers import (
    Codes,
    Column,
    checked_missing,
    concatenated,
    encoded,
    identifier_columns,
    label_column,
    label_index,
    rows_to_keep,
)
from overlimit.simulation.events.instants import Micros, instant_of, instants_of, span_of
from overlimit.simulation.events.labels import concatenated_labels, labelled, of_paths, without_empty
from overlimit.simulation.events.saving import FACTS, load, save, table_of
from overlimit.simulation.events.scaling import checked_scale, more_clients, more_requests
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    import pandas as pd
    import polars
    import pyarrow

Missing = Literal["raise", "skip"]

_BUSIEST = 3


class Event(NamedTuple):
    """One event, as ``limiter.hit(*event.identifiers, cost=event.cost)`` takes it.

    Parameters
    ----------
    time
        Seconds since the Unix epoch.
    identifiers
        Its identifiers, in the order of the columns.
    cost
        What it costs.
    label
        What it was labelled; None without labels.
    """

    time: float
    identifiers: tuple[str | bytes, ...]
    cost: int
    label: str | bytes | None


class Events:
    """Events, each with its time, its identifiers and its cost, in the order given. Immutable.

    Parameters
    ----------
    times
        One instant for each event: seconds since the Unix epoch, ``datetime64``, datetimes, pandas or pyarrow
        timestamps. Naive ones are UTC. They need not be in order: like the rows of a table, events and all
        answers about them stay in the order given.
    identifiers
        A column of identifiers, or a dict (or DataFrame) of columns by name. In the column ``ip`` the value
        ``203.0.113.7`` is the identifier ``ip:203.0.113.7``. Values are texts, bytes and whole numbers; None,
        NaN, NA and empty texts mean that the event has none in that column. They stay as they are: that all
        IPv6 addresses of a network count together is the work of `read_log`.
    cost
        What each event costs: a whole number from 0, or a column of them.
    unit
        What times that are numbers count: ``"s"`` (the default), ``"ms"``, ``"us"`` or ``"ns"``. Fractions of
        a microsecond are rounded to the nearest.
    missing
        What to do with events that have no identifier at all: ``"raise"`` a ValueError, or ``"skip"`` them.
    labels
        What each event is, such as who sent it, for results by label: a column of texts.
    endpoint
        Where each request went: a column of paths such as ``"/orders/7"``, or of whole URLs; queries are left
        out. Limits of routes ask for it; one that is missing goes to no route.
    method
        The HTTP method of each request: a column; by default, and where it is missing, ``GET``.

    Raises
    ------
    ValueError
        Columns differ in length; a time, an identifier or a cost is missing or outside its range. The message
        names the first row that is wrong, counted from 0.
    TypeError
        Something is no column, or holds what cannot be a time, an identifier or a cost.

    Notes
    -----
    It takes about 12 bytes an event and 4 more for each column of identifiers, besides the distinct ones;
    8 more if costs differ, and 8 more if the events were not given in order.
    """

    __slots__ = ("_bad_lines", "_columns", "_costs", "_facts", "_order", "_skipped", "_times")

    _times: Micros
    _columns: tuple[Column, ...]
    _costs: Costs
    _facts: Mapping[str, Column]
    """What else is known: ``label``, ``endpoint`` and ``method``, those that there are, in this order."""
    _order: npt.NDArray[np.int64] | None
    """Which of those given each event in time is; None: they were given in this order."""
    _skipped: int
    _bad_lines: BadLines

    @checks_arguments(
        synonyms={"costs": "cost", "ids": "identifiers", "keys": "identifiers", "time": "times"}
    )
    def __init__(
        self,
        times: object,
        identifiers: object,
        cost: object = 1,
        *,
        unit: str | None = None,
        missing: Missing = "raise",
        labels: object = None,
        endpoint: object = None,
        method: object = None,
    ) -> None:
        checked_missing(missing)
        micros = instants_of(times, unit)
        columns = identifier_columns(identifiers, len(micros))
        costs = costs_of(cost, len(micros))
        kept = rows_to_keep(columns, missing)
        given = {"label": labels, "endpoint": endpoint, "method": method}
        facts = {
            name: label_column(each, len(micros), "labels" if name == "label" else name)
            for name, each in given.items()
            if each is not None
        }
        self._set(micros, columns, costs, facts)
        if kept is not None:
            self._set_part(self, kept)
            self._skipped = len(micros) - len(kept)
        self._sort()

    @classmethod
    def _of(
        cls,
        times: Micros,
        columns: Sequence[Column],
        costs: Costs,
        facts: Mapping[str, Column] = MappingProxyType({}),
        *,
        skipped: int = 0,
        bad_lines: BadLines | None = None,
    ) -> Events:
        """Build events of columns that are valid, each event with an identifier.

        They are sorted by time, and that is the order given.
        """
        events = cls.__new__(cls)
        events._set(times, columns, costs, facts)
        events._sort()
        events._order, events._skipped, events._bad_lines = None, skipped, bad_lines or BadLines()
        return events

    def _set(
        self, times: Micros, columns: Sequence[Column], costs: Costs, facts: Mapping[str, Column]
    ) -> None:
        self._times, self._columns, self._costs = times, tuple(columns), costs
        paths = {"endpoint": of_paths(facts["endpoint"])} if "endpoint" in facts else {}
        self._facts = {**facts, **paths}
        self._order, self._skipped, self._bad_lines = None, 0, BadLines()

    def _set_part(self, whole: Events, which: slice | npt.NDArray[Any]) -> None:
        """Become some of the events of another, which may be this one: ``which`` of those in time."""
        order = None if whole._order is None else _places(whole._order[which], len(whole._times))
        constant = not whole._costs.strides[0]
        self._times = whole._times[which]
        self._columns = tuple(column.take(which) for column in whole._columns)
        one_cost = whole._costs[:1].sum()
        self._costs = np.broadcast_to(one_cost, len(self._times)) if constant else whole._costs[which]
        self._facts = {name: column.take(which) for name, column in whole._facts.items()}
        self._order, self._skipped, self._bad_lines = order, whole._skipped, whole._bad_lines

    def _sort(self) -> None:
        """Keep the events in the order of their times, those of the same time in the order given."""
        if np.any(self._times[1:] < self._times[:-1]):
            order = np.argsort(self._times, kind="stable")
            self._set_part(self, order)
            self._order = order
        for column in (self._times, self._costs):
            column.flags.writeable = False

    @property
    def times(self) -> Micros:
        """When each event happened, in microseconds since the Unix epoch."""
        return self._as_given(self._times)

    @property
    def costs(self) -> Costs:
        """What each event costs."""
        return self._as_given(self._costs)

    @property
    def identifiers(self) -> npt.NDArray[np.object_] | Any:
        """The identifiers of the events, as decisions show them: a column, or a dict of columns by name.

        None where an event has none in that column.
        """
        if self._columns[0].name is None:
            return self._as_given(self._columns[0].values())
        return {column.title: self._as_given(column.values()) for column in self._columns}

    @property
    def labels(self) -> npt.NDArray[np.object_] | None:
        """What each event was labelled; None without labels."""
        return self._fact("label")

    @property
    def _labels(self) -> Column | None:
        return self._facts.get("label")

    def _fact(self, name: str) -> npt.NDArray[np.object_] | None:
        return self._as_given(self._facts[name].values()) if name in self._facts else None

    @property
    def endpoint(self) -> npt.NDArray[np.object_] | None:
        """The path of each request, None where it has none; None if that is not known."""
        return self._fact("endpoint")

    @property
    def method(self) -> npt.NDArray[np.object_] | None:
        """The HTTP method of each request; None if that is not known."""
        return self._fact("method")

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Where the k-th event in time is: ``events.times[events.order]`` never falls.

        Events of the same time are in the order given.
        """
        return np.arange(len(self)) if self._order is None else self._order

    def _as_given(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column that is in the order of times in the order given."""
        if self._order is None or not column.strides[0]:
            return column
        given = np.empty_like(column)
        given[self._order] = column
        given.flags.writeable = column.flags.writeable
        return given

    def _in_time(self, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column that is in the order given in the order of times."""
        return given if self._order is None else given[self._order]

    @property
    def skipped(self) -> int:
        """How many events were left out because they had no identifier."""
        return self._skipped

    @property
    def bad_lines(self) -> BadLines:
        """The lines that `read_log` could not read; none for events from elsewhere."""
        return self._bad_lines

    def __len__(self) -> int:
        return len(self._times)

    def __eq__(self, other: object) -> bool:
        """Tell whether both have the same times, columns, costs and labels, in the order of times.

        An empty label is as none.
        """
        if not isinstance(other, Events):
            return NotImplemented
        mine, others = self._compared(), other._compared()
        return list(mine) == list(others) and all(np.array_equal(mine[name], others[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # as of arrays

    def _compared(self) -> dict[object, npt.NDArray[Any]]:
        columns: dict[object, npt.NDArray[Any]] = {each.name: each.values() for each in self._columns}
        facts: dict[object, npt.NDArray[Any]] = {name: each.values() for name, each in self._facts.items()}
        if self._labels is not None:
            facts["label"] = without_empty(self._labels).values()
        return columns | facts | {"time": self._times, "cost": self._costs}

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, self._as_given(np.arange(len(self))).tolist())

    @overload
    def __getitem__(self, which: int | np.integer[Any]) -> Event: ...
    @overload
    def __getitem__(self, which: slice | npt.NDArray[np.bool_]) -> Events: ...
    @overload
    def __getitem__(self, which: str) -> npt.NDArray[np.object_]: ...
    def __getitem__(
        self, which: int | np.integer[Any] | slice | npt.NDArray[np.bool_] | str
    ) -> Event | Events | npt.NDArray[np.object_]:
        """Return the k-th event; of a slice or of an array of bools those events; of a name a column.

        ``events["ip"]`` are the identifiers of that column, None where an event has none. A column of a
        replay is in the same order: ``events[~replay.allowed]`` are the events that were refused, and
        ``events["ip"][~replay.allowed]`` whose they are. Raises IndexError beyond the last, ValueError for a
        slice that goes back, for an array of another length or, as the index of a Series tells, in another
        order, and for a column that there is not, TypeError for anything else.
        """
        if isinstance(which, str):
            return self._as_given(self._column(which).values())
        if isinstance(which, SupportsIndex) and not isinstance(which, (bool, np.bool_, np.ndarray)):
            return self._event(self._number_in_time(operator.index(which)))
        if isinstance(which, slice):
            if which.step is not None and operator.index(which.step) < 0:
                raise ValueError("parts of events stay in the order given, so a slice must not go back")
            chosen = np.zeros(len(self), bool)
            chosen[which] = True
            return self._part(which if self._order is None else np.flatnonzero(self._in_time(chosen)))
        mask = in_one_order(which, "an array of bools")
        if mask.dtype != np.bool_ or not mask.ndim:
            raise TypeError(
                "events are chosen by a number, a slice, an array of bools or the name of a column, not "
                f"{short_repr(which)}"
            )
        if mask.shape != self._times.shape:
            raise ValueError(f"an array of {len(self)} bools is needed, not of the shape {mask.shape}")
        return self._part(np.flatnonzero(self._in_time(mask)))

    def _number_in_time(self, k: int) -> int:
        if not -len(self) <= k < len(self):
            raise IndexError(f"there are {len(self)} events, so there is none of the number {k}")
        return k if self._order is None else int(np.flatnonzero(self._order == k % len(self))[0])

    def _event(self, k: int) -> Event:
        """Return the k-th event in time."""
        found = (column.labels[column.codes[k]] for column in self._columns if column.codes[k] >= 0)
        label = None if self._labels is None or self._labels.codes[k] < 0 else self._labels
        shown_label = None if label is None else label.labels[label.codes[k]]
        return Event(int(self._times[k]) / 1e6, tuple(found), int(self._costs[k]), shown_label)

    def _part(self, which: slice | npt.NDArray[Any]) -> Events:
        part = Events.__new__(Events)
        part._set_part(self, which)
        part._sort()
        return part

    def between(self, start: object = None, end: object = None, *, timezone: str = "UTC") -> Events:
        """Return the events from an instant to another.

        Parameters
        ----------
        start
            The first instant that belongs to it: seconds since the Unix epoch, a datetime, a ``datetime64``
            or a text in ISO 8601. None: from the first event.
        end
            The first instant that does not. None: to the last event.
        timezone
            The time zone of instants without an offset, such as ``"2026-03-02"``.

        Raises
        ------
        ValueError, TypeError
            One of them is no instant.
        InvalidLimit
            There is no such time zone.
        """
        zone = zone_named(timezone)
        first = 0 if start is None else int(np.searchsorted(self._times, instant_of(start, zone)))
        last = len(self) if end is None else int(np.searchsorted(self._times, instant_of(end, zone)))
        return self._part(slice(first, max(first, last)))

    def sample(self, fraction: float, *, by: str | None = None, seed: int = 0) -> Events:
        """Return all events of some of the identifiers, so that the rate of each stays true.

        Parameters
        ----------
        fraction
            The share of the identifiers that is kept, from 0 to 1; at least one is, unless it is 0.
        by
            The column whose identifiers are chosen, by default the first. Events without one are left out.
        seed
            Another number chooses other identifiers. With the same number, identifiers that were chosen among
            some are mostly chosen among more, as in the log of the next day.

        Raises
        ------
        ValueError
            ``fraction`` is not from 0 to 1, or there is no such column.
        """
        if not isinstance(fraction, int | float | np.number):
            raise TypeError(f"fraction must be a number from 0 to 1, such as 0.1, not {short_repr(fraction)}")
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be from 0 to 1, not {fraction!r}")
        column = self._column(by)
        present = np.flatnonzero(column.counts())
        wanted = min(len(present), max(round(fraction * len(present)), 1)) if fraction else 0
        ranks = {k: _rank(column.labels[k], seed) for k in present.tolist()}
        chosen = np.zeros(len(column.labels) + 1, bool)
        chosen[sorted(ranks, key=ranks.__getitem__)[:wanted]] = True
        return self._part(np.flatnonzero(chosen[column.codes]))

    def scale(self, factor: float, *, by: Literal["clients", "requests"], seed: int = 0) -> Events:
        """Return so many times as much traffic of the same kind, over the same time.

        Parameters
        ----------
        factor
            How many times as much.
        by
            What there is more of; it has no default, as to limits the two are quite different. ``"clients"``:
            those that there are stay, and others like them come, with new identifiers in all columns
            (``ip:203.0.113.7#2``) and with gaps of their own; bursts and the busy hours of a day stay. Of a
            fraction, some of the clients are chosen at random. ``"requests"``: each client asks so many times
            as often, between its requests; below 1, some of them are left out.
        seed
            Another number makes other events of the same kind.

        Returns
        -------
        Events
            In the order of their times. Copies have the labels and costs of what they are copies of. A client
            is the first identifier that an event has.

        Raises
        ------
        TypeError, ValueError
            ``factor`` is no number above 0, or below 1 for clients (`sample` returns some of them); or there
            is no such ``by``.
        """
        factor, random = checked_scale(factor, by), np.random.default_rng(seed)
        clients, _ = self._codes_of()
        if by == "clients":
            return self._copies(*more_clients(self._times, clients, self._columns, factor, random))
        return self._copies(*more_requests(self._times, clients, factor, random))

    def _copies(
        self, rows: npt.NDArray[np.int64], times: Micros, columns: Sequence[Column] | None = None
    ) -> Events:
        """Return events like some of those in time, perhaps several times, at other times, in their order."""
        copies = Events.__new__(Events)
        copies._set_part(self, rows)
        copies._times, copies._order = times, None
        copies._columns = copies._columns if columns is None else tuple(columns)
        copies._sort()
        copies._order = None
        return copies

    def with_labels(self, labels: object, other: str | bytes | None = "") -> Events:
        """Return the same events with other labels, by which answers are told apart.

        Parameters
        ----------
        labels
            A dict of labels by identifier, such as ``{"ip:198.51.100.20": "office"}``; a function that
            returns the label of an identifier, and is called once for each distinct one; or a column with
            a row for each event. An event with several identifiers has the label of its first column that has
            one. None, NaN, NA and empty texts are no label.
        other
            The label of the rest, by default the empty one, which tables and figures do not tell apart.

        Raises
        ------
        ValueError
            A column has another length; no event has any identifier of a dict, or one of them lacks the
            name of its column or is an IPv6 address of which the events have the network.
        TypeError
            Something is no label, or no column.

        Warns
        -----
        UserWarning
            Some identifiers of a dict have no events. It names the first five.
        """
        column, events = labelled(self._columns, labels, other, self._in_time), copy(self)
        events._facts = {"label": column} | {**self._facts, "label": column}
        return events

    def _column(self, name: str | None) -> Column:
        """Return a column by its name; None: the first."""
        for column in self._columns:
            if name is None or name == column.name:
                return column
        names = [repr(column.name) for column in self._columns if column.name is not None]
        known = f"there are {', '.join(names)}" if names else "it has no name"
        raise ValueError(f"there is no column {short_repr(name)} of identifiers: {known}")

    def _codes_of(self, column: str | None = None) -> tuple[Codes, npt.NDArray[Any]]:
        """Return each event's place in an array of identifiers, by a column or the first that it has."""
        if column is not None:
            found = self._column(column)
            return found.codes, found.labels
        codes = np.full(len(self), -1, np.int32)
        labels: list[npt.NDArray[Any]] = []
        for each in self._columns:
            fresh = (codes < 0) & (each.codes >= 0)
            codes[fresh] = each.codes[fresh] + sum(map(len, labels))
            labels.append(each.labels)
        return codes, np.concatenate(labels)

    @staticmethod
    def concat(parts: Sequence[Events]) -> Events:
        """Return the events of several as one, in the order of times; labels are kept if any part has some.

        Those of the same time are in the order of the parts.

        Raises
        ------
        ValueError
            There is no part, or their columns of identifiers have other names.
        """
        parts = list(parts)
        if not all(isinstance(part, Events) for part in parts):
            raise TypeError("Events.concat takes a list of Events, as Events.concat([monday, tuesday])")
        if not parts:
            raise ValueError("Events.concat needs at least one Events")
        names = [tuple(column.name for column in part._columns) for part in parts]
        if len(set(names)) > 1:
            raise ValueError(f"these events have other columns of identifiers than the first: {names}")
        facts = {
            name: concatenated_labels([part._facts.get(name) for part in parts], list(map(len, parts)))
            for name in FACTS
            if any(name in part._facts for part in parts)
        }
        return Events._of(
            np.concatenate([part._times for part in parts]),
            [concatenated(columns) for columns in zip(*(part._columns for part in parts), strict=True)],
            np.concatenate([part._costs for part in parts]),
            facts,
            skipped=sum(part._skipped for part in parts),
            bad_lines=sum((part._bad_lines for part in parts), BadLines()),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the events to a file of Parquet, from which `load` and `read_log` get them again.

        Other programs read a table from it, as `to_pandas` returns, in the order of times. The file has
        everything but the order given: also what was skipped and the lines that could not be read.

        Raises
        ------
        OSError
            It cannot be written; a file that was there is as it was.
        ValueError
            The name is that of another format, or of something that is no file.
        ModuleNotFoundError
            There is no pyarrow.
        """
        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Events:
        """Return the events that `save` wrote to a file.

        Raises
        ------
        ValueError
            `save` did not write it; `read_log` reads other files.
        OSError
            It cannot be read.
        ModuleNotFoundError
            There is no pyarrow.
        """
        return load(path, Events._of)

    def head(self, count: int = 5) -> pd.DataFrame:
        """Return the first events as a table, as `to_pandas` does."""
        return self[:count].to_pandas()

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a table, with a row for each.

        Its columns are ``time`` (UTC), the columns of identifiers (``identifier`` if it has no name; as
        decisions show them), ``cost``, and ``label``, ``endpoint`` and ``method`` if there are such. Raises
        ModuleNotFoundError without pandas.
        """
        pandas = required("pandas", "Events.to_pandas")
        columns = {"time": pandas.DatetimeIndex(self.times.view("datetime64[us]")).tz_localize("UTC")}

        def texts(column: Column) -> Any:
            return pandas.Categorical.from_codes(self._as_given(column.codes), label_index(column.labels))

        columns |= {column.title: texts(column) for column in self._columns}
        columns |= {"cost": self.costs} | {name: texts(column) for name, column in self._facts.items()}
        frame: pd.DataFrame = pandas.DataFrame(columns)
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return the table of `to_pandas` as one of Arrow, texts as dictionaries.

        What UTF-8 cannot write makes its column one of bytes. Raises ModuleNotFoundError without pyarrow.
        """
        table = table_of(self)
        return table if self._order is None else table.take(self._as_given(np.arange(len(self))))

    def to_polars(self) -> polars.DataFrame:
        """Return the table of `to_arrow` as one of polars; raise ModuleNotFoundError without it."""
        frame: polars.DataFrame = required("polars", "to_polars").from_arrow(self.to_arrow())
        return frame

    def __repr__(self) -> str:
        distinct = [f"{each.title}: {np.count_nonzero(each.counts()):,} distinct" for each in self._columns]
        return f"Events({'; '.join(self._count_and_span() + distinct + self._labelled() + self._left_out())})"

    def _repr_html_(self) -> str:
        text = "; ".join(self._count_and_span() + self._labelled() + self._left_out())
        head = ("identifiers", "distinct", "busiest (events)")
        return html_table("Events", text, head, map(busiest, self._columns), left=(0, 2))

    def _count_and_span(self) -> list[str]:
        count = f"{len(self):,} event{'s' * (len(self) != 1)}"
        if not len(self):
            return [count]
        first, last = span_of(self._times)
        return [count, f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"]

    def _labelled(self) -> list[str]:
        if self._labels is None:
            return []
        count = int(np.count_nonzero(without_empty(self._labels).counts()))
        return [f"{count:,} label{'s' * (count != 1)}"]

    def _left_out(self) -> list[str]:
        skipped, bad = self._skipped, self._bad_lines.count
        told = [f"{skipped:,} skipped"] if skipped else []
        return told + ([f"{bad:,} bad line{'s' * (bad != 1)}"] if bad else [])


def _places(rows: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64] | None:
    """Return the place of each of some of so many rows among these; None if they rise."""
    if not np.any(rows[1:] < rows[:-1]):
        return None
    kept = np.zeros(count, np.int64)
    kept[rows] = 1
    places: npt.NDArray[np.int64] = np.cumsum(kept)[rows] - 1
    return places


def busiest(column: Column) -> tuple[str, int, str]:
    """Return a column's title, how many identifiers it has, and those with the most events."""
    counts = column.counts()
    # Only those that are busiest are sorted, among so many identifiers.
    most = np.argpartition(-counts, min(_BUSIEST, len(counts) - 1))[:_BUSIEST] if len(counts) else counts
    ordered = sorted((k for k in most.tolist() if counts[k]), key=lambda k: (-counts[k], k))
    busiest = ", ".join(f"{printable(column.labels[k])} ({counts[k]:,})" for k in ordered)
    return column.title, int(np.count_nonzero(counts)), busiest


def _rank(label: str | bytes, seed: int) -> bytes:
    """Return a number of a label that is random, but the same in every run."""
    return hashlib.blake2b(encoded(label), digest_size=16, key=repr(seed).encode()[:64]).digest()
