"""The formats ``combined`` and ``common`` of nginx and Apache.

Most lines are plain: printable ASCII without escapes, with quotes and spaces where the format has them. Where
the fields of these are, numpy finds from the places of the quotes. A regular expression decides about the others,
and about all lines where there is no pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.arrow_texts import Positions, slices, texts_of
from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.logs.formats import Batch, Format, Table, Wanted, matched
from overlimit.simulation.logs.lines import Lines, Mask
from overlimit.simulation.optional import is_installed, required

_QUOTED = r'"(?P<%s>[^"\\]*(?:\\.[^"\\]*)*)"'
_COMMON = (
    r"(?P<ip>[^ ]+) [^ ]+ (?P<user>[^ ]+) (?P<time>\[[^\]]+\]) "
    + _QUOTED % "request"
    + r" (?P<status>[0-9]{3}) (?P<bytes>[0-9]+|-)"
)
_AGENT = " " + _QUOTED % "referer" + " " + _QUOTED % "agent"
_MORE = r"(?: .*)?"
COMMON = re.compile(_COMMON + _MORE)
COMBINED = re.compile(_COMMON + _AGENT + _MORE)
_PREFIX = "^[^ ]+ [^ ]+ [^ ]+$"
_REQUEST = re.compile(r"([A-Za-z-]+) (?:(.+) HTTP/[0-9.]+|(.+))")
_REQUEST_GROUPS = r"^(?P<method>[A-Za-z-]+) (?:(?P<path>.+) HTTP/[0-9.]+|(?P<rest>.+))$"

_FIELDS = ("ip", "user", "time", "method", "path", "status", "bytes", "referer", "agent")
_OF_REQUEST = {"method", "path"}
_OF_PREFIX = {"ip": 0, "user": 2}
_WHOLE = ("status", "bytes")

# What precedes the quote of a request, as in `[10/Oct/2025:13:55:36 +0200] "`.
_TIME = len("[10/Oct/2025:13:55:36 +0200]")
_SHORTEST_PREFIX = len("a - -")
_MOST_DIGITS_OF_SIZE = 15
_SPACE, _OPEN, _CLOSE, _QUOTE, _ZERO, _DASH = b' []"0-'


class AccessLog(Format):
    """Access logs in one of the two formats; if ``combined``, lines end with the referer and the agent."""

    has_numeric_times = False
    free_without_cost = True

    def __init__(self, *, combined: bool) -> None:
        self._combined = combined
        self._fields = _FIELDS if combined else _FIELDS[:-2]
        self._match = (COMBINED if combined else COMMON).fullmatch

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if the format has no field of a name."""
        names = set(wanted.among(self._fields))
        stored = sorted(names - _OF_REQUEST) + (["request"] if names & _OF_REQUEST else [])
        for chunk in chunks:
            batch = self._batch(Lines(chunk), stored)
            yield batch._replace(tables=[_finished(table, names, wanted.all) for table in batch.tables])

    def _batch(self, lines: Lines, names: list[str]) -> Batch:
        tables = []
        todo = np.ones(len(lines), bool)
        if is_installed("pyarrow"):
            fields = _fields_of(lines, 6 if self._combined else 2)
            columns, plain = _columns(fields, names)
            rows = fields.lines[plain]
            todo[rows] = False
            tables.append(Table(columns, lines.first + rows, lambda row: lines.text(int(rows[row]))))
        others = np.flatnonzero(todo)
        batch = matched(self._match, names, lines.texts(others.tolist()), lines.first + others)
        return Batch(tables + [_with_none(table) for table in batch.tables], batch.bad)


class _Fields(NamedTuple):
    """Of lines that seem plain: which they are, where each begins, and where its quotes and its size end."""

    of: Lines
    lines: Positions
    starts: Positions
    quotes: npt.NDArray[np.int64]
    size_ends: Positions

    def bounds(self, name: str) -> tuple[Positions, Positions]:
        """Return where a field begins and ends in each line."""
        opening = self.quotes[:, 0]
        if name == "prefix":
            return self.starts, opening - _TIME - 2
        if name == "time":
            return opening - _TIME - 1, opening - 1
        if name == "status":
            return self.quotes[:, 1] + 2, self.quotes[:, 1] + 5
        if name == "bytes":
            return self.quotes[:, 1] + 6, self.size_ends
        k = 2 * ("request", "referer", "agent").index(name)
        return self.quotes[:, k] + 1, self.quotes[:, k + 1]

    def texts(self, name: str) -> Any:
        """Return a field of each line."""
        return slices(self.of.data, *self.bounds(name))


def _fields_of(lines: Lines, count: int) -> _Fields:
    """Find the lines in which quotes, spaces, the time, the status and the size are where they should be."""
    buffer = lines.buffer
    marks = np.flatnonzero((buffer == _QUOTE) | (buffer == ord("\n")))
    ends = np.flatnonzero(buffer[marks] == ord("\n"))
    firsts = np.append(0, ends[:-1] + 1)
    has_quotes = ends - firsts >= count if count > 2 else ends - firsts == count
    which = np.flatnonzero(has_quotes & ~_is_special(lines))
    quotes = marks[firsts[which][:, None] + np.arange(count)]
    which, quotes = (each[_has_time(buffer, lines.starts[which], quotes[:, 0])] for each in (which, quotes))
    size_ends = quotes[:, 2] - 1 if count > 2 else lines.ends[which]
    fields = _Fields(lines, which, lines.starts[which], quotes, size_ends)
    good = _has_numbers(buffer, fields)
    if count > 2:
        good &= _has_agent(buffer, quotes, size_ends)
    if good.all():
        return fields
    return _Fields(lines, which[good], fields.starts[good], quotes[good], size_ends[good])


def _is_special(lines: Lines) -> Mask:
    special = lines.not_ascii()
    if b"\\" in lines.data:
        special |= lines.holding(np.flatnonzero(lines.buffer == ord("\\")))
    return special


def _has_time(buffer: npt.NDArray[np.uint8], starts: Positions, opening: Positions) -> Mask:
    before = opening - _TIME - 2
    long_enough: Mask = before - starts >= _SHORTEST_PREFIX
    before = np.where(long_enough, before, starts)
    for place, letter in ((0, _SPACE), (1, _OPEN), (_TIME, _CLOSE), (_TIME + 1, _SPACE)):
        long_enough &= buffer[np.minimum(before + place, len(buffer) - 1)] == letter
    return long_enough


def _has_agent(buffer: npt.NDArray[np.uint8], quotes: Positions, size_ends: Positions) -> Mask:
    after = buffer[quotes[:, 5] + 1]
    good: Mask = (after == ord("\n")) | (after == _SPACE)
    good &= buffer[size_ends] == _SPACE
    good &= (quotes[:, 4] == quotes[:, 3] + 2) & (buffer[quotes[:, 3] + 1] == _SPACE)
    return good


def _has_numbers(buffer: npt.NDArray[np.uint8], fields: _Fields) -> Mask:
    """Tell whether there is a status of three digits and a size that is a number or a dash."""
    closing = fields.quotes[:, 1]
    begin, end = fields.bounds("bytes")
    width = end - begin
    good: Mask = (width > 0) & (width <= _MOST_DIGITS_OF_SIZE)
    at = np.where(good, closing, 0)
    good &= (buffer[at + 1] == _SPACE) & (buffer[at + 5] == _SPACE)
    for place in (2, 3, 4):
        good &= buffer[at + place] - _ZERO <= 9
    sizes = _is_digits(buffer, np.where(good, begin, 0), np.where(good, width, 1))
    return good & (sizes | ((width == 1) & (buffer[np.where(good, begin, 0)] == _DASH)))


def _is_digits(buffer: npt.NDArray[np.uint8], begin: Positions, width: Positions) -> Mask:
    good = np.ones(len(begin), bool)
    for place in range(int(width.max(initial=0))):
        digit = buffer[np.minimum(begin + place, len(buffer) - 1)] - _ZERO <= 9
        good &= digit | (width <= place)
    return good


def _columns(fields: _Fields, names: list[str]) -> tuple[dict[str, Any], Mask]:
    """Return fields of the lines that are plain, and which these are."""
    compute = required("pyarrow.compute", "reading logs quickly")
    # Addresses come again and again, so each prefix is taken apart once.
    prefixes = fields.texts("prefix").dictionary_encode()
    good = compute.match_substring_regex(prefixes.dictionary, _PREFIX).to_numpy(zero_copy_only=False)
    parts = compute.split_pattern(prefixes.dictionary.filter(good), " ").flatten()
    rows = prefixes.indices.to_numpy()
    plain = good[rows]
    numbers = (np.cumsum(good) - 1)[rows[plain]]
    columns = {}
    for name in names:
        if name in _OF_PREFIX:
            values = parts.take(np.arange(_OF_PREFIX[name], len(parts), 3))
            columns[name] = _without_dashes(values).take(numbers)
        else:
            texts = fields.texts(name)
            texts = texts if plain.all() else texts.filter(plain)
            columns[name] = texts if name == "time" else _without_dashes(texts)
    return columns, plain


def _without_dashes(column: Any) -> Any:
    """Return a column of texts with null instead of a dash."""
    compute = required("pyarrow.compute", "reading logs quickly")
    dashes = compute.equal(column, "-")
    return compute.if_else(dashes, None, column) if dashes.true_count else column


def _with_none(table: Table) -> Table:
    columns = {
        name: list(column) if name == "time" else [None if value == "-" else value for value in column]
        for name, column in table.columns.items()
    }
    return table._replace(columns=columns)


def _finished(table: Table, names: set[str], typed: bool) -> Table:
    """Add what is made of other fields, and if ``typed``, turn numbers into numbers."""
    columns = dict(table.columns)
    if (requests := columns.pop("request", None)) is not None:
        columns |= {name: c for name, c in _taken_apart(requests).items() if name in names}
    if typed:
        columns |= {name: _numbers(columns[name]) for name in _WHOLE}
    return table._replace(columns=columns)


def _taken_apart(requests: Any) -> dict[str, Any]:
    """Return the methods and the paths of requests; none of those that are none."""
    texts = texts_of(requests)
    if texts is None:
        found = [_REQUEST.fullmatch(text) if text else None for text in requests]
        return {"method": [m and m[1] for m in found], "path": [m and (m[2] or m[3]) for m in found]}
    compute = required("pyarrow.compute", "reading logs quickly")
    parts = compute.extract_regex(texts.column, _REQUEST_GROUPS)
    method, path, rest = (compute.struct_field(parts, each) for each in ("method", "path", "rest"))
    return {"method": method, "path": compute.if_else(compute.equal(path, ""), rest, path)}


def _numbers(column: Any) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Return whole numbers; NaN where there is none."""
    texts = column if isinstance(column, list) else column.to_pylist()
    numbers = np.array([np.nan if text is None else float(text) for text in texts], np.float64)
    # No comparison holds for NaN.
    return numbers.astype(np.int64) if numbers.size and (numbers < 2**53).all() else numbers
