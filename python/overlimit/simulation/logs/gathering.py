"""From the tables of a log to events: times, identifiers and costs are read, and only they are kept."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._addresses import Addresses
from overlimit.simulation.events.bad_lines import KEPT, BadLine, BadLines
from overlimit.simulation.events.costs import MOST, costs_of
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.given import given_column
from overlimit.simulation.events.identifiers import MISSING, REFUSED, Codes, Column, factorized
from overlimit.simulation.events.instants import Micros
from overlimit.simulation.logs.chunks import log_name
from overlimit.simulation.logs.conditions import Values, Where, frame_of, rows_where, values_of
from overlimit.simulation.logs.distinct import AS_WRITTEN, Distinct
from overlimit.simulation.logs.formats import NOT_A_LINE, Bad, Batch, Format, Table
from overlimit.simulation.logs.log_formats import format_hint
from overlimit.simulation.logs.log_times import NO_TIME, LogTimes, Reading, is_day, log_times, time_hint

_MOST_BAD = 10_000
_NONE = np.empty(0, np.int64)
_DIGITS_OF_MOST = 16


class Options(NamedTuple):
    """What `read_log` was told, checked; ``sources`` says from which column each identifier comes.

    ``facts`` says that of what else is asked for: ``label``, ``endpoint`` and ``method``.
    """

    sources: dict[str | None, str]
    time: tuple[str, ...]
    cost: int | str
    where: Where | None
    facts: dict[str, str | Values]
    reading: Reading
    zone: tzinfo
    missing: str
    on_bad: str
    ipv6_prefix: int
    proxies: Addresses
    functions: Mapping[str, tuple[str, Values]]
    """What returns a column that is not in the log, and the argument that it was given as."""

    @property
    def names(self) -> str:
        """The columns of identifiers, in words."""
        return " or ".join(self.sources.values())

    @property
    def time_name(self) -> str:
        """What the times are called in a table."""
        return self.time[0] if len(self.time) == 1 else "time"

    @property
    def no_time(self) -> str:
        """What is wrong with rows without a time."""
        if len(self.time) == 1:
            return f"the column {self.time[0]!r} holds no time"
        return f"the columns {' and '.join(map(repr, self.time))} hold no time"


class UnreadableLog(ValueError):
    """No line could be read, or none of the first ones."""


class _Rows(NamedTuple):
    """Rows that are kept: their lines, and what becomes of them; codes are of identifiers, then of facts."""

    lines: npt.NDArray[np.int64]
    times: Micros
    codes: tuple[Codes, ...]
    costs: npt.NDArray[np.int64]


class _Found(NamedTuple):
    """What a table holds: rows that are kept, the line of the first good one, and the bad rows by reason."""

    table: Table
    rows: _Rows
    first_good: int | None
    bad: dict[str, npt.NDArray[np.int64]]


class Gatherer:
    """Gathers the events of a log, file by file, in constant memory besides what it keeps."""

    def __init__(self, options: Options) -> None:
        self._file = ""
        self._free_without_cost = False
        self._options = options
        self._distinct = {
            name: Distinct(name, options.ipv6_prefix, options.proxies) for name in options.sources
        }
        self._facts = {name: Distinct(None, AS_WRITTEN) for name in options.facts}
        self._kept: list[_Rows] = []
        self._skipped = 0
        self._first_bad: list[BadLine] = []
        self._reasons: Counter[str] = Counter()
        self._log = ""
        self._counts: Counter[tuple[str, str]] = Counter()
        self._any_good = False
        self._format = ""
        self.only_days = True

    def begin(self, file: str, form: Format) -> None:
        """Say which file what follows is from, and how it is written."""
        self._file, self._free_without_cost, self._format = file, form.free_without_cost, form.name
        self._log = log_name(Path(file))

    def add(self, batch: Batch) -> None:
        """Keep what becomes events; raise ValueError for bad lines and for rows of nobody, if so told."""
        found = [self._found(table) for table in batch.tables if len(table.lines)]
        self._count_bad(batch.bad, found)
        if found:
            self._kept.append(_in_order([each.rows for each in found])._replace(lines=_NONE))

    def add_bad(self, line: int, text: str, reason: str) -> None:
        """Count a bad line; raise ValueError if so told, and after so many without a good one."""
        self._count_bad([Bad(line, text, reason)], [])

    def _count_bad(self, bad: list[Bad], found: list[_Found]) -> None:
        counts = Counter(each.reason for each in bad)
        for each in found:
            counts.update({reason: len(rows) for reason, rows in each.bad.items()})
        first_good = min((each.first_good for each in found if each.first_good is not None), default=None)
        if counts:
            self._keep_first(bad, found)
            if not self._any_good:
                self._check_first_lines(bad, found, first_good, counts)
            self._reasons += counts
            self._counts.update({(self._log, reason): count for reason, count in counts.items()})
        self._any_good |= first_good is not None

    def _keep_first(self, bad: list[Bad], found: list[_Found]) -> None:
        """Keep the first bad lines, or raise ValueError for the very first, if so told."""
        room = KEPT - len(self._first_bad)
        if room <= 0:
            return
        lines = [*bad, *(each for one in found for each in _first_bad(one, room))]
        first = heapq.nsmallest(room, lines)
        if self._options.on_bad == "raise":
            line, text, reason = first[0]
            raise ValueError(f"{self._file}, line {line} cannot be read: {reason}: {text[:200]!r}")
        self._first_bad += [BadLine(self._file, *each) for each in first]

    def _check_first_lines(
        self, bad: list[Bad], found: list[_Found], first_good: int | None, counts: Counter[str]
    ) -> None:
        """Raise ValueError if so many lines are bad and none before them is good."""
        lines = [np.array([each.line for each in bad], np.int64)]
        lines += [each.table.lines[rows] for each in found for rows in each.bad.values()]
        before = np.concatenate(lines)
        if first_good is not None:
            before = before[before < first_good]
        if self._reasons.total() + len(before) >= _MOST_BAD:
            self._reasons += counts
            raise self._unreadable(f"none of the first {_MOST_BAD:,} lines")

    def _unreadable(self, which: str) -> UnreadableLog:
        reason, first = self._reasons.most_common(1)[0][0], self._first_bad[0]
        hint = format_hint(first.text, self._format) if first.reason == reason else ""
        hint = hint or "; is that the right column?" * reason.startswith("it has no ")
        hint = hint or f" ({self._format!r})" * (reason == NOT_A_LINE)
        return UnreadableLog(
            f"{which} could be read: {reason}{hint}; the first is {first.file}, line {first.line}: "
            f"{first.text[:200]!r}"
        )

    def events(self) -> Events:
        """Return what has been gathered; raise ValueError if no line could be read."""
        if self._reasons and not self._any_good:
            raise self._unreadable("no line")
        before = len(self._distinct)
        rows = _joined(self._kept, before + len(self._facts))
        self._kept = []
        columns = [
            Column(name, codes, distinct.labels())
            for (name, distinct), codes in zip(self._distinct.items(), rows.codes, strict=False)
        ]
        cost = self._options.cost
        costs = rows.costs if isinstance(cost, str) else costs_of(cost, len(rows.times))
        bad_lines = BadLines(self._first_bad, self._counts)
        facts = {
            name: Column(None, np.maximum(codes, MISSING), distinct.labels())
            for (name, distinct), codes in zip(self._facts.items(), rows.codes[before:], strict=True)
        }
        return Events._of(rows.times, columns, costs, facts, skipped=self._skipped, bad_lines=bad_lines)

    def _found(self, table: Table) -> _Found:
        options, columns = self._options, table.columns
        written = _time_column(columns, options.time)
        times = log_times(written, options.reading, options.zone)
        has_time = times.micros != NO_TIME
        frame_at = partial(frame_of, table.columns, options.time_name, times.micros)
        for source, (argument, function) in options.functions.items():
            found = values_of(function, frame_at(has_time), argument)
            columns = {**columns, source: _spread(found, has_time)}
        costs = _costs(columns, options, self._free_without_cost)
        codes = [self._distinct[name].codes_of(columns[source]) for name, source in options.sources.items()]
        facts = {
            name: self._facts[name].codes_of(columns[source])
            for name, source in options.facts.items()
            if isinstance(source, str)
        }
        reasons = self._reasons_of_values(written, times, costs, codes, facts.get("label"))
        valid = ~np.logical_or.reduce(list(reasons.values()))
        wanted = valid.copy()
        if options.where is not None:
            wanted[valid] = rows_where(options.where, frame_at(valid))
        nobody = wanted & np.logical_and.reduce([each == MISSING for each in codes])
        if options.missing == "bad":
            reasons[f"it has no {options.names}"] = nobody
        kept = wanted & ~nobody
        which = slice(None) if kept.all() else np.flatnonzero(kept)
        self._count_nobody(table, nobody)
        good = valid & ~nobody if options.missing == "bad" else valid
        picked = costs[which] if isinstance(options.cost, str) else costs
        facts = {name: each[which] for name, each in facts.items()}
        if callable(label := options.facts.get("label")):
            facts["label"] = self._labels_given(values_of(label, frame_at(kept), "labels"))
        kept_codes = (*(each[which] for each in codes), *(facts[name] for name in self._facts))
        rows = _Rows(table.lines[which], times.micros[which], kept_codes, picked)
        first_good = int(table.lines[good.argmax()]) if good.any() else None
        if self.only_days and kept.any():
            self.only_days = is_day(_value(written[int(kept.argmax())]), options.reading)
        return _Found(table, rows, first_good, _bad_rows(reasons))

    def _labels_given(self, labels: Any) -> Codes:
        codes = self._facts["label"].codes_of(labels)
        if (codes == REFUSED).any():
            raise TypeError("labels= must return texts, or None for rows without a label")
        return codes

    def _reasons_of_values(
        self,
        written: Any,
        times: LogTimes,
        costs: npt.NDArray[np.int64],
        codes: list[Codes],
        labels: Codes | None,
    ) -> dict[str, npt.NDArray[np.bool_]]:
        """Return for each reason why a value cannot be read the rows that have such a value."""
        options = self._options
        no_time = (times.micros == NO_TIME) & ~times.skipped
        reasons = {f"the clocks of {options.zone} never showed this time": times.skipped}
        for hint, rows in _by_hint(written, np.flatnonzero(no_time)).items():
            reasons[f"{options.no_time}{hint}"] = rows
        if isinstance(options.cost, str):
            reasons[f"the column {options.cost!r} holds no whole number from 0"] = costs < 0
        for source, each in zip(options.sources.values(), codes, strict=True):
            reasons[f"the column {source!r} holds what cannot be an identifier"] = each == REFUSED
        if labels is not None:
            column = options.facts["label"]
            reasons[f"the column {column!r} holds what cannot be a label"] = labels == REFUSED
        return reasons

    def _count_nobody(self, table: Table, nobody: npt.NDArray[np.bool_]) -> None:
        """Count the rows without an identifier, or raise ValueError."""
        if self._options.missing == "raise" and nobody.any():
            row = int(nobody.argmax())
            raise ValueError(
                f"{self._file}, line {table.lines[row]} has no {self._options.names}: "
                f"missing='skip' leaves such lines out and counts them: {table.text_of(row)[:200]!r}"
            )
        if self._options.missing == "skip":
            self._skipped += int(nobody.sum())


def _time_column(columns: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the column of times; of several, texts of their values with spaces between them."""
    if len(names) == 1:
        return columns[names[0]]
    parts = (
        column.to_pylist() if hasattr(column := columns[name], "to_pylist") else column for name in names
    )
    rows = zip(*parts, strict=True)
    return [None if None in row or "" in row else " ".join(map(str, row)) for row in rows]


def _spread(found: Any, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
    """Return a column that has values in some rows, in all of them."""
    column = np.full(len(rows), None, object)
    column[rows] = np.fromiter(found, object, len(found))
    return column


def _value(cell: Any) -> object:
    return cell.as_py() if hasattr(cell, "as_py") else cell


def _by_hint(column: Any, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the rows that hold no time by what may be wrong with their values."""
    hints: dict[str, npt.NDArray[np.bool_]] = {}
    for row in rows.tolist():
        hint = time_hint(_value(column[row]))
        if hint not in hints:
            hints[hint] = np.zeros(len(column), bool)
        hints[hint][row] = True
    return hints


def _bad_rows(reasons: dict[str, npt.NDArray[np.bool_]]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the rows of each reason, each row for the first that it has."""
    found: dict[str, npt.NDArray[np.int64]] = {}
    before = np.zeros(len(next(iter(reasons.values()))), bool)
    for reason, rows in reasons.items():
        if rows.any():
            found[reason] = np.flatnonzero(rows & ~before)
            before |= rows
    return found


def _first_bad(found: _Found, count: int) -> list[Bad]:
    rows = [(int(row), reason) for reason, each in found.bad.items() for row in each[:count].tolist()]
    return [Bad(int(found.table.lines[row]), found.table.text_of(row), reason) for row, reason in rows]


def _costs(columns: Mapping[str, Any], options: Options, free: bool) -> npt.NDArray[np.int64]:
    """Return the cost of each row, -1 where it is none; nothing if all cost the same."""
    if not isinstance(options.cost, str):
        return _NONE
    codes, labels = factorized(given_column(columns[options.cost], "cost"))
    costs = [_cost(each) for each in labels]
    absent = 0 if free else -1
    found: npt.NDArray[np.int64] = np.array([*costs, -1, absent], np.int64)[codes]
    return found


def _cost(label: str | bytes) -> int:
    if not (label.isdigit() and label.isascii()):
        return -1
    digits = label.lstrip(b"0") if isinstance(label, bytes) else label.lstrip("0")
    return min(int(digits or 0), MOST) if len(digits) <= _DIGITS_OF_MOST else MOST


def _in_order(parts: list[_Rows]) -> _Rows:
    """Return the rows of several tables in the order of their lines."""
    if len(parts) == 1:
        return parts[0]
    rows = _joined(parts, len(parts[0].codes))
    order = np.argsort(rows.lines, kind="stable")
    costs = rows.costs[order] if len(rows.costs) else rows.costs
    return _Rows(rows.lines[order], rows.times[order], tuple(each[order] for each in rows.codes), costs)


def _joined(parts: list[_Rows], width: int) -> _Rows:
    if not parts:
        return _Rows(_NONE, _NONE, (np.empty(0, np.int32),) * width, _NONE)
    lines, times, codes, costs = zip(*parts, strict=True)
    joined = tuple(map(np.concatenate, zip(*codes, strict=True)))
    return _Rows(np.concatenate(lines), np.concatenate(times), joined, np.concatenate(costs))
