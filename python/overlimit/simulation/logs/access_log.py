"""Logs of lines that an expression takes apart, such as ``combined`` and ``common`` of nginx and Apache.

Most lines of these two are plain: they have no escapes, and quotes and spaces where the format has them.
The core finds where their fields are, and pyarrow takes these out. The expression decides about the
others, and about all lines where there is no pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._core import access_lines
from overlimit.simulation.events.labels import ORIGIN
from overlimit.simulation.logs.arrow_texts import Positions, slices, texts_of
from overlimit.simulation.logs.chunks import Chunk, ChunkReader
from overlimit.simulation.logs.formats import Batch, Format, Table, Wanted, matched
from overlimit.simulation.logs.lines import Lines
from overlimit.simulation.logs.log_formats import LogFormat
from overlimit.simulation.optional import is_installed, required

_REQUEST_GROUPS = rf"^(?P<method>[A-Za-z-]+) (?:{ORIGIN})?(?:(?P<path>.+) HTTP/[0-9.]+|(?P<rest>.+))$"
_REQUEST = re.compile(_REQUEST_GROUPS)

_QUOTED_FIELDS = ("request", "referer", "agent")
_PARTS_OF_REQUEST = ("method", "path")
_PLAIN = ("combined", "common")
_WHOLE = ("status", "bytes")

# What precedes the quote of a request, as in `[10/Oct/2025:13:55:36 +0200] "`.
_TIME = len("[10/Oct/2025:13:55:36 +0200]")


class AccessLog(Format):
    """Lines of a format of the table, each with an address, a time and, mostly, a request."""

    has_numeric_times = False
    free_without_cost = True

    def __init__(self, form: LogFormat) -> None:
        self.name = form.name
        pattern = form.pattern()
        self._match = pattern.fullmatch
        parts = (_PARTS_OF_REQUEST if name == "request" else (name,) for name in pattern.groupindex)
        self._fields = tuple(chain.from_iterable(parts))
        self._may_be_plain = form.name in _PLAIN and is_installed("pyarrow")

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if the format has no field of a name."""
        names = set(wanted.among(self._fields))
        stored = sorted(names.difference(_PARTS_OF_REQUEST))
        stored += ["request"] if names.intersection(_PARTS_OF_REQUEST) else []
        for chunk in log:
            batch = self._batch(chunk, stored)
            yield batch._replace(tables=[_finished(table, names, wanted.all) for table in batch.tables])

    def _batch(self, chunk: Chunk, names: list[str]) -> Batch:
        if not self._may_be_plain:
            lines = Lines(chunk)
            return self._matched(lines, np.arange(len(lines)), names)
        fields = _fields_of(chunk, self.name == "combined")
        lines = fields.of
        todo = np.ones(len(lines), bool)
        todo[fields.lines] = False
        text_of = lambda row: lines.text(int(fields.lines[row]))  # noqa: E731
        plain = Table(_columns(fields, names), lines.first + fields.lines, text_of)
        others = self._matched(lines, np.flatnonzero(todo), names)
        return Batch([plain, *others.tables], others.bad)

    def _matched(self, lines: Lines, which: Positions, names: list[str]) -> Batch:
        batch = matched(self._match, names, lines.texts(which.tolist()), lines.first + which)
        return batch._replace(tables=[without_dashes(table) for table in batch.tables])


class _Fields(NamedTuple):
    """Of plain lines: which they are, where they begin, their addresses end, and quotes are."""

    of: Lines
    lines: Positions
    starts: Positions
    ip_ends: Positions
    quotes: npt.NDArray[np.int64]

    def texts(self, name: str) -> Any:
        """Return a field of each line."""
        return slices(self.of.data, *self._bounds(name))

    def _bounds(self, name: str) -> tuple[Positions, Positions]:
        """Return where a field begins and ends in each line."""
        if name in _QUOTED_FIELDS:
            k = 2 * _QUOTED_FIELDS.index(name)
            return self.quotes[:, k] + 1, self.quotes[:, k + 1]
        opening, closing = self.quotes[:, 0], self.quotes[:, 1]
        found: dict[str, Callable[[], tuple[Positions, Positions]]] = {
            "ip": lambda: (self.starts, self.ip_ends),
            "user": lambda: (self.ip_ends + len(" - "), opening - _TIME - 2),
            "time": lambda: (opening - _TIME - 1, opening - 1),
            "status": lambda: (closing + 2, closing + 5),
            "bytes": lambda: (closing + 6, self._size_ends()),
        }
        return found[name]()

    def _size_ends(self) -> Positions:
        has_agent = self.quotes.shape[1] > 2
        ends: Positions = self.quotes[:, 2] - 1 if has_agent else self.of.ends[self.lines]
        return ends


def _fields_of(chunk: Chunk, combined: bool) -> _Fields:
    """Find the lines of a chunk, and which of them are plain."""
    found = (np.frombuffer(column, np.int64) for column in access_lines(chunk.data, combined))
    ends, plain, ip_ends, quotes = found
    lines = Lines(chunk, ends)
    quotes = quotes.reshape(len(plain), 6 if combined else 2)
    if not lines.is_utf8():
        is_text = ~lines.not_ascii()[plain]
        plain, ip_ends, quotes = plain[is_text], ip_ends[is_text], quotes[is_text]
    return _Fields(lines, plain, lines.starts[plain], ip_ends, quotes)


def _columns(fields: _Fields, names: list[str]) -> dict[str, Any]:
    columns = {name: fields.texts(name) for name in names}
    if "ip" in columns:
        # Addresses come again and again, so each is looked at once.
        columns["ip"] = columns["ip"].dictionary_encode()
    return {name: each if name == "time" else _without_dashes(each) for name, each in columns.items()}


def _without_dashes(column: Any) -> Any:
    """Return a column of texts with null instead of a dash."""
    arrow = required("pyarrow", "reading logs quickly")
    compute = required("pyarrow.compute", "reading logs quickly")
    if isinstance(column, arrow.DictionaryArray):
        return arrow.DictionaryArray.from_arrays(column.indices, _without_dashes(column.dictionary))
    dashes = compute.equal(column, "-")
    return compute.if_else(dashes, None, column) if dashes.true_count else column


def without_dashes(table: Table) -> Table:
    """Return rows with None instead of a dash."""
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
        columns |= {name: whole_numbers(columns[name]) for name in _WHOLE if name in columns}
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


def whole_numbers(column: Any) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Return whole numbers; NaN where there is none."""
    texts = column if isinstance(column, list) else column.to_pylist()
    numbers = np.array([float(text) if text and text.isdecimal() else np.nan for text in texts], np.float64)
    # No comparison holds for NaN.
    return numbers.astype(np.int64) if numbers.size and (numbers < 2**53).all() else numbers
