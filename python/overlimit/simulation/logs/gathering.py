"""From the tables of a log to events: times, identifiers and costs are read, and only they are kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit.http.identifying.addresses import grouped
from overlimit.simulation.events.costs import MOST, costs_of
from overlimit.simulation.events.events import BadLine, BadLines, Events
from overlimit.simulation.events.given import given_column
from overlimit.simulation.events.identifiers import MISSING, REFUSED, Codes, Column, factorized, named
from overlimit.simulation.events.instants import Micros
from overlimit.simulation.logs.access_log import COMMON
from overlimit.simulation.logs.formats import NOT_A_LINE, Bad, Batch, Table
from overlimit.simulation.logs.log_times import NO_TIME, log_times, time_hint
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    import pandas as pd

_AS_WRITTEN = 128
_MOST_BAD = 10_000
# An IPv4 address counts as it is written.
_LIKE_NETWORK = re.compile(r"(?![0-9.]+\Z).*[.:].*[.:]")
_NONE = np.empty(0, np.int64)
_DIGITS_OF_MOST = 16


class Options(NamedTuple):
    """What `read_log` was told, checked; ``sources`` says from which column each identifier comes."""

    sources: dict[str, str]
    time: str
    cost: int | str
    where: Where | None
    unit: str | None
    missing: str
    on_bad: str
    ipv6_prefix: int
    free_without_cost: bool


class UnreadableLog(ValueError):
    """No line could be read, or none of the first ones."""


class _Rows(NamedTuple):
    """Rows that are kept: their lines, and what becomes of them."""

    lines: npt.NDArray[np.int64]
    times: Micros
    codes: tuple[Codes, ...]
    costs: npt.NDArray[np.int64]


class _Labels:
    """The distinct identifiers of a column, over all tables."""

    def __init__(self, name: str, ipv6_prefix: int) -> None:
        self.numbers: dict[str | bytes, int] = {}
        self._name = name
        self._ipv6_prefix = ipv6_prefix

    def codes_of(self, column: Any) -> Codes:
        """Return the number of each row's identifier, `MISSING` or `REFUSED`."""
        codes, labels = factorized(given_column(column, "identifiers"))
        numbers = [self.numbers.setdefault(self._counted(each), len(self.numbers)) for each in labels]
        found: Codes = np.array([*numbers, REFUSED, MISSING], np.int32)[codes]
        return found

    def _counted(self, label: str | bytes) -> str | bytes:
        """Return an identifier as it counts: an address by its network, as in web applications."""
        if self._ipv6_prefix < _AS_WRITTEN and isinstance(label, str) and _LIKE_NETWORK.match(label):
            label = grouped(label, self._ipv6_prefix)
        return named(self._name, label)


class Gatherer:
    """Gathers the events of a log, ``file`` by file, in constant memory besides what it keeps."""

    def __init__(self, options: Options) -> None:
        self.file = ""
        self._options = options
        self._labels = {name: _Labels(name, options.ipv6_prefix) for name in options.sources}
        self._kept: list[_Rows] = []
        self._skipped = 0
        self._bad_lines = BadLines()
        self._reasons: Counter[str] = Counter()
        self._any_good = False

    def add(self, batch: Batch) -> None:
        """Keep what becomes events; raise ValueError for bad lines and for rows of nobody, if so told."""
        bad, good = list(batch.bad), list[int]()
        parts = [self._rows(table, bad, good) for table in batch.tables if len(table.lines)]
        for each in sorted(bad):
            self._any_good |= any(line < each.line for line in good)
            self.add_bad(*each)
        self._any_good |= bool(good)
        if parts:
            self._kept.append(_in_order(parts)._replace(lines=_NONE))

    def add_bad(self, line: int, text: str, reason: str) -> None:
        """Count a bad line; raise ValueError if so told, and after so many without a good one."""
        if self._options.on_bad == "raise":
            raise ValueError(f"{self.file}, line {line} cannot be read: {reason}: {text[:200]!r}")
        self._bad_lines += BadLines([BadLine(self.file, line, text)])
        self._reasons[reason] += 1
        if self._bad_lines.count == _MOST_BAD and not self._any_good:
            raise self._unreadable(f"none of the first {_MOST_BAD:,} lines")

    def _unreadable(self, which: str) -> UnreadableLog:
        reason, first = self._reasons.most_common(1)[0][0], next(iter(self._bad_lines))
        hint = _format_hint(first.text) if reason == NOT_A_LINE else ""
        return UnreadableLog(
            f"{which} could be read: {reason}{hint}; the first is {first.file}, line {first.line}: "
            f"{first.text[:200]!r}"
        )

    def events(self) -> Events:
        """Return what has been gathered; raise ValueError if no line could be read."""
        if self._bad_lines and not self._any_good:
            raise self._unreadable("no line")
        rows = _joined(self._kept, len(self._labels))
        self._kept = []
        columns = [
            Column(name, codes, np.fromiter(labels.numbers, object, len(labels.numbers)))
            for (name, labels), codes in zip(self._labels.items(), rows.codes, strict=True)
        ]
        cost = self._options.cost
        costs = rows.costs if isinstance(cost, str) else costs_of(cost, len(rows.times))
        return Events._of(rows.times, columns, costs, skipped=self._skipped, bad_lines=self._bad_lines)

    def _rows(self, table: Table, bad: list[Bad], good: list[int]) -> _Rows:
        """Return the rows that become events; note bad ones, and the line of the first that is good."""
        options, columns = self._options, table.columns
        given_times = given_column(columns[options.time], "time")
        times = log_times(given_times, options.unit)
        costs = _costs(columns, options)
        codes = [self._labels[name].codes_of(columns[source]) for name, source in options.sources.items()]
        no_time = times == NO_TIME
        hint = time_hint(given_times.at(int(no_time.argmax()))) if no_time.any() else ""
        reasons = {f"the column {options.time!r} holds no time{hint}": no_time}
        if isinstance(options.cost, str):
            reasons[f"the column {options.cost!r} holds no whole number from 0"] = costs < 0
        for source, each in zip(options.sources.values(), codes, strict=True):
            reasons[f"the column {source!r} holds what cannot be an identifier"] = each == REFUSED
        valid = ~np.logical_or.reduce(list(reasons.values()))
        bad += [_bad(table, row, reasons) for row in np.flatnonzero(~valid).tolist()]
        good += table.lines[valid][:1].tolist()
        if options.where is not None:
            valid = rows_where(options.where, columns, options.time, times, valid)
        kept = self._with_identifiers(table, codes, valid)
        picked = costs[kept] if isinstance(options.cost, str) else costs
        return _Rows(table.lines[kept], times[kept], tuple(each[kept] for each in codes), picked)

    def _with_identifiers(
        self, table: Table, codes: list[Codes], valid: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Return the rows that have an identifier, and count the others, or raise ValueError."""
        none = valid & np.logical_and.reduce([each == MISSING for each in codes])
        if none.any() and self._options.missing == "raise":
            row = int(none.argmax())
            raise ValueError(
                f"{self.file}, line {table.lines[row]} has no {' or '.join(self._options.sources)}: "
                f"missing='skip' leaves such lines out and counts them: {table.text_of(row)[:200]!r}"
            )
        self._skipped += int(none.sum())
        return np.flatnonzero(valid & ~none)


def _costs(columns: Any, options: Options) -> npt.NDArray[np.int64]:
    """Return the cost of each row, -1 where it is none; nothing if all cost the same."""
    if not isinstance(options.cost, str):
        return _NONE
    codes, labels = factorized(given_column(columns[options.cost], "cost"))
    costs = [_cost(each) for each in labels]
    absent = 0 if options.free_without_cost else -1
    found: npt.NDArray[np.int64] = np.array([*costs, -1, absent], np.int64)[codes]
    return found


def _cost(label: str | bytes) -> int:
    if not (label.isdigit() and label.isascii()):
        return -1
    digits = label.lstrip(b"0") if isinstance(label, bytes) else label.lstrip("0")
    return min(int(digits or 0), MOST) if len(digits) <= _DIGITS_OF_MOST else MOST


def _format_hint(line: str) -> str:
    """Say of which format a line is that could not be read."""
    if line.lstrip().startswith("{"):
        return "; it looks like JSON: format='json'"
    return "; it looks like the common format: format='common'" if COMMON.fullmatch(line) else ""


def _bad(table: Table, row: int, reasons: dict[str, npt.NDArray[np.bool_]]) -> Bad:
    reason = next(text for text, rows in reasons.items() if rows[row])
    return Bad(int(table.lines[row]), table.text_of(row), reason)


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


Where: TypeAlias = "str | Callable[[pd.DataFrame], Any]"


def rows_where(
    where: Where, columns: Mapping[str, Any], time: str, micros: Micros, valid: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which valid rows fulfil a condition; ValueError for unknown columns, TypeError for no bools."""
    frame = _frame(columns, time, micros).loc[valid]
    found = where(frame) if callable(where) else _evaluated(frame, where)
    mask = _mask(found, len(frame))
    result = np.zeros(len(valid), bool)
    result[np.flatnonzero(valid)[mask]] = True
    return result


def _frame(columns: Mapping[str, Any], time: str, micros: Micros) -> pd.DataFrame:
    pandas = required("pandas", "where=")
    series = {name: _series(pandas, each) for name, each in columns.items()}
    series[time] = pandas.DatetimeIndex(np.maximum(micros, 0).view("datetime64[us]")).tz_localize("UTC")
    frame: pd.DataFrame = pandas.DataFrame(series)
    return frame


def _series(pandas: Any, column: Any) -> Any:
    if hasattr(column, "to_pandas"):
        return column.to_pandas()
    texts = isinstance(column, (list, tuple)) and {type(each) for each in column} <= {str, type(None)}
    return pandas.Series(column, dtype=object) if texts else column


def _evaluated(frame: pd.DataFrame, where: str) -> Any:
    names = required("pandas", "where=").errors.UndefinedVariableError
    try:
        return frame.eval(where)
    except names as error:
        raise ValueError(
            f"where={where!r}: {error}; there are {', '.join(map(repr, frame.columns))}"
        ) from None


def _mask(found: Any, count: int) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[Any] = np.asarray(found.fillna(False) if hasattr(found, "fillna") else found)
    if mask.shape == () and mask.dtype == bool:
        mask = np.full(count, bool(mask))
    if mask.dtype == object and {type(each) for each in mask.tolist()} <= {bool}:
        mask = mask.astype(bool)
    if mask.dtype != bool or mask.shape != (count,):
        raise TypeError(
            f"where must say true or false for each of {count} rows, as in 'status == 404', and gave "
            f"{type(found).__name__} of {mask.dtype}"
        )
    return mask
