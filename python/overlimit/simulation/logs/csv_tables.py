"""Logs in CSV.

pyarrow reads the lines that are a row each, in which quotes enclose whole fields. Python's ``csv`` reads the
others, among them rows of several lines.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlimit.simulation.logs.arrow_texts import Positions
from overlimit.simulation.logs.chunks import Chunk, ChunkReader
from overlimit.simulation.logs.conditions import series_of
from overlimit.simulation.logs.formats import Bad, Batch, Format, Table, Wanted
from overlimit.simulation.logs.lines import Lines, Mask
from overlimit.simulation.logs.log_formats import delimiter_hint
from overlimit.simulation.optional import is_installed, required

_QUOTE = ord('"')
_NEWLINE = ord("\n")
_LONGEST_ROW = 1 << 20


class CsvTables(Format):
    """Rows of fields between delimiters; without ``columns``, the first row has their names."""

    name = "csv"

    def __init__(self, columns: Sequence[str] | None, delimiter: str) -> None:
        if len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {delimiter!r}")
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, such as ['time', 'ip'], not {columns!r}")
        self._columns = None if columns is None else list(columns)
        self._delimiter = delimiter

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if it has no column of a name."""
        reader: _Reader | None = None
        pending: Chunk | None = None
        for chunk in log:
            lines = Lines(chunk if pending is None else Chunk(pending.data + chunk.data, pending.first))
            start = 0
            if reader is None:
                names, start = self._names(lines, log.path)
                kept = wanted.among(names, log.path, delimiter_hint(names, self._delimiter))
                reader = _Reader(names, kept, wanted, self._delimiter)
            batch, rest = reader.read(lines, start, at_end=False)
            pending = lines.after(rest)
            yield batch
        if reader is not None and pending is not None:
            yield reader.read(Lines(pending), 0, at_end=True)[0]

    def _names(self, lines: Lines, path: Path) -> tuple[list[str], int]:
        """Return the names of the columns, and how many lines they take."""
        names, end = self._columns or [], 0
        if self._columns is None:
            record = _Records(lines, self._delimiter).at(0)
            if record.error is not None:
                raise ValueError(f"{path}: its first line, which names the columns, is wrong: {record.error}")
            names, end = record.fields, record.end
        if len(set(names)) < len(names):
            raise ValueError(f"two columns in {path} have the same name: {', '.join(names)}")
        return names, end


class _Record(NamedTuple):
    """What the lines up to ``end`` are: fields, or an error; an open quote may end with lines to come."""

    fields: list[str]
    end: int
    error: str | None
    is_open: bool


class _Feed:
    """Lines as ``csv`` takes them, from the number ``next`` on."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.next = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        if self.is_at_end:
            raise StopIteration
        self.next += 1
        return self._lines.text(self.next - 1) + "\n"

    @property
    def is_at_end(self) -> bool:
        return self.next == len(self._lines)


class _Records:
    """Reads records of some lines by Python's ``csv``."""

    def __init__(self, lines: Lines, delimiter: str) -> None:
        self._feed = _Feed(lines)
        self._reader = csv.reader(self._feed, delimiter=delimiter, strict=True)

    def at(self, line: int) -> _Record:
        """Return the record that begins with a line."""
        self._feed.next = line
        try:
            return _Record(next(self._reader), self._feed.next, None, False)
        except csv.Error as error:
            return _Record([], line + 1, str(error), self._feed.is_at_end)


class _Reader:
    """Reads the rows of a file."""

    def __init__(self, names: list[str], kept: list[str], wanted: Wanted, delimiter: str) -> None:
        self._names, self._kept, self._wanted, self._delimiter = names, kept, wanted, delimiter
        self._numeric: set[str] | None = None
        self._has_pyarrow = is_installed("pyarrow.csv") and delimiter.isascii()

    def read(self, lines: Lines, start: int, at_end: bool) -> tuple[Batch, int]:
        """Return what is in lines from ``start`` on, and the line at which a row begins that goes on."""
        plain = self._plain(lines)
        plain[:start] = False
        odd = ~plain & (lines.ends > lines.starts)
        odd[:start] = False
        rows = _Rows()
        rest = self._read_odd(lines, odd, plain, rows, at_end)
        tables = self._read_plain(lines, np.flatnonzero(plain), rows)
        tables.append(self._table(rows, lines))
        return Batch([table for table in tables if len(table.lines)], rows.bad), rest

    def _plain(self, lines: Lines) -> Mask:
        """Return the lines that are a row of their own, and that pyarrow reads as ``csv`` does."""
        if not self._has_pyarrow:
            return np.zeros(len(lines), bool)
        plain: Mask = (lines.ends > lines.starts) & ~lines.with_control_characters(but=self._delimiter)
        if not lines.is_utf8():
            plain &= ~lines.not_ascii()
        if '"' in self._delimiter or b'"' in lines.data:
            quotes = lines.places(_QUOTE)
            if not _are_whole(lines, quotes, ord(self._delimiter)):
                plain &= _has_whole_quotes(lines, quotes, ord(self._delimiter))
        return plain

    def _read_odd(self, lines: Lines, odd: Mask, plain: Mask, rows: _Rows, at_end: bool) -> int:
        """Read the rows that begin with odd lines; what is theirs is not plain any more."""
        records = _Records(lines, self._delimiter)
        end = 0
        for line in np.flatnonzero(odd).tolist():
            if line < end:
                continue
            record = records.at(line)
            if record.is_open and not at_end and lines.starts[-1] - lines.starts[line] < _LONGEST_ROW:
                plain[line:] = False
                return line
            end = record.end
            plain[line:end] = False
            self._add(record, line, lines, rows)
        return len(lines)

    def _add(self, record: _Record, line: int, lines: Lines, rows: _Rows) -> None:
        last = lines.first + record.end - 1
        if record.error is None and len(record.fields) == len(self._names):
            rows.fields.append(record.fields)
            rows.numbers.append(last)
            rows.begins.append(line)
        else:
            reason = record.error or f"it has {len(record.fields)} fields, not {len(self._names)}"
            rows.bad.append(Bad(last, "\n".join(lines.texts(range(line, record.end))), reason))

    def _read_plain(self, lines: Lines, which: Positions, rows: _Rows) -> list[Table]:
        if not len(which):
            return []
        refused: list[int] = []

        def refuse(row: Any) -> str:
            refused.append(row.number - 1)
            return "skip"

        columns = self._columns(lines.only(which), refuse)
        records = _Records(lines, self._delimiter)
        for line in which[refused].tolist():
            self._add(records.at(line), line, lines, rows)
        read = np.delete(which, refused)
        text_of = lambda row: lines.text(int(read[row]))  # noqa: E731
        return [Table(self._with_numbers(columns), lines.first + read, text_of)]

    def _columns(self, data: bytes, refuse: Callable[[Any], str]) -> dict[str, Any]:
        arrow = required("pyarrow", "reading logs quickly")
        reader = required("pyarrow.csv", "reading logs quickly")
        table = reader.read_csv(
            arrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
            reader.ParseOptions(
                delimiter=self._delimiter, quote_char='"', escape_char=False, invalid_row_handler=refuse
            ),
            reader.ConvertOptions(
                column_types=dict.fromkeys(self._kept, arrow.string()),
                include_columns=self._kept,
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        return {name: table[name].combine_chunks() for name in self._kept}

    def _table(self, rows: _Rows, lines: Lines) -> Table:
        at = {name: self._names.index(name) for name in self._kept}
        columns: dict[str, Any] = {name: [row[k] for row in rows.fields] for name, k in at.items()}
        columns = self._with_numbers(columns) if rows.fields else columns

        def text_of(row: int) -> str:
            return "\n".join(lines.texts(range(rows.begins[row], rows.numbers[row] - lines.first + 1)))

        return Table(columns, np.array(rows.numbers, np.int64), text_of)

    def _with_numbers(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return as numbers the columns that held nothing else in the first rows; NaN for other texts."""
        if not self._wanted.all:
            return columns
        pandas = required("pandas", "where=")
        others = {name: series_of(pandas, c) for name, c in columns.items() if name not in self._wanted.names}
        numbers = {name: pandas.to_numeric(column, errors="coerce") for name, column in others.items()}
        if self._numeric is None:
            self._numeric = {name for name, c in others.items() if _is_numeric(c, numbers[name].isna())}
        return columns | {name: numbers[name] for name in self._numeric}


class _Rows:
    """Rows that were read one by one, the line at which each ends, and the lines that are none."""

    def __init__(self) -> None:
        self.fields: list[list[str]] = []
        self.numbers: list[int] = []
        self.begins: list[int] = []
        self.bad: list[Bad] = []


def _are_whole(lines: Lines, quotes: Positions, delimiter: int) -> bool:
    """Tell whether all quotes begin and end a field in turn, and no line ends between the two."""
    opening, closing = quotes[::2], quotes[1::2]
    if len(opening) > len(closing):
        return False
    before = lines.letters_at(opening - 1)
    before[:1] = before[:1] if opening[:1].any() else _NEWLINE
    after = lines.letters_at(closing + 1)
    if not all(((each == delimiter) | (each == _NEWLINE)).all() for each in (before, after)):
        return False
    return bool((np.searchsorted(opening, lines.ends) == np.searchsorted(closing, lines.ends)).all())


def _has_whole_quotes(lines: Lines, at: Positions, delimiter: int) -> Mask:
    """Return the lines in which each quote begins or ends a field, or is one of two next to each other."""
    buffer = lines.buffer
    line = np.searchsorted(lines.ends, at)
    counts = np.bincount(line, minlength=len(lines))
    whole: Mask = counts % 2 == 0
    place = np.arange(len(at)) - (np.cumsum(counts) - counts)[line]
    before = np.where(at > 0, buffer[np.maximum(at, 1) - 1], _NEWLINE)
    after = buffer[at + 1]
    is_opening = place % 2 == 0
    begins = (before == delimiter) | (before == _NEWLINE)
    ends = (after == delimiter) | (after == _NEWLINE)
    # Of two quotes next to each other within a field, the first seems to close it and the second to open it.
    doubled = np.append(at[1:] == at[:-1] + 1, False)
    begins[1:] |= doubled[:-1]
    wrong = np.where(is_opening, ~begins, ~(ends | doubled))
    whole[line[wrong]] = False
    return whole


def _is_numeric(column: Any, is_absent: Any) -> bool:
    texts = column[is_absent]
    return len(texts) < len(column) and not any(text.strip() for text in texts)
