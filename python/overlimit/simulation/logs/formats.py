"""How logs are written: by patterns, as JSON, Parquet and CSV; each format makes tables of a file."""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.optional import required


class Bad(NamedTuple):
    """A line that could not be read: its number from 1, its text, and why."""

    line: int
    text: str
    reason: str


class Table(NamedTuple):
    """Rows of a log: its columns, the number of each row's line, and what returns the text of a row."""

    columns: Mapping[str, Any]
    lines: npt.NDArray[np.int64]
    text_of: Callable[[int], str]


class Batch(NamedTuple):
    """Tables of neighbouring lines, which may be interleaved, and the bad lines among them."""

    tables: list[Table]
    bad: list[Bad]


class Wanted(NamedTuple):
    """The columns that are asked for.

    ``names`` become events; of them a row may lack those that are ``optional``, but not all if there must be
    ``one_at_least``. The others are wanted too if ``all``, for a condition.
    """

    names: frozenset[str]
    optional: frozenset[str]
    all: bool
    one_at_least: bool

    def among(self, present: Sequence[str], path: Path | None = None) -> list[str]:
        """Return which columns to read of those there are; raise ValueError if one of a name is not there."""
        if absent := self.names - set(present):
            raise missing_column(absent, present, path)
        return [name for name in present if self.all or name in self.names]


class Format(ABC):
    """How a log is written."""

    has_numeric_times: ClassVar[bool] = True
    """Whether times may be numbers, which count in a unit."""
    free_without_cost: ClassVar[bool] = False
    """Whether a row whose cost is missing costs nothing; else it is a bad line."""

    @abstractmethod
    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file, in order; raise ValueError if a column that is wanted is missing."""


def missing_column(names: Set[str], present: Iterable[str], path: Path | None = None) -> ValueError:
    """Return the error for columns that are not there."""
    columns = f"column {' or '.join(map(repr, sorted(names)))}"
    where = "" if path is None else f" in {path}"
    found = ", ".join(map(repr, present))
    return ValueError(f"there is no {columns}{where}; there are {found or 'none'}")


NOT_A_LINE = "it is not a line of this format"


class PatternFormat(Format):
    """Lines in which a pattern is found. Raises ValueError without named groups, TypeError for bytes."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        if not isinstance(pattern.pattern, str):
            raise TypeError(f"the pattern must be for texts, not for bytes: {pattern.pattern!r}")
        if not pattern.groupindex:
            raise ValueError(f"the pattern has no named groups, such as (?P<ip>...): {pattern.pattern!r}")
        self._pattern = pattern
        self._names = list(pattern.groupindex)

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if there is no group of a name."""
        names = wanted.among(self._names)
        for chunk in chunks:
            lines = chunk.lines()
            yield matched(
                self._pattern.search, names, lines, np.arange(chunk.first, chunk.first + len(lines))
            )


def matched(
    match: Callable[[str], re.Match[str] | None],
    names: Sequence[str],
    lines: list[str],
    numbers: npt.NDArray[np.int64],
) -> Batch:
    """Take lines apart by a pattern; blank ones are left out."""
    matches = list(map(match, lines))
    wrong = [k for k, found in enumerate(matches) if found is None]
    bad = [Bad(int(numbers[k]), lines[k], NOT_A_LINE) for k in wrong if lines[k].strip()]
    right = np.delete(np.arange(len(lines)), wrong)
    rows = [_groups(found, names) for found in matches if found is not None]
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    return Batch([Table(columns, numbers[right], lambda row: lines[right[row]])], bad)


def _groups(found: re.Match[str], names: Sequence[str]) -> tuple[str | None, ...]:
    return found.group(*names) if len(names) > 1 else (found[names[0]],)


class JsonLines(Format):
    """One JSON object a line; its keys are the columns, and a key that a line lacks is missing there."""

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file.

        Raises ValueError for a column that no line has: one that no line may lack as soon as the first lines
        are read, others at the end.
        """
        seen: dict[str, None] = {}
        for chunk in chunks:
            rows, lines, bad = _objects(chunk)
            for row in rows:
                seen.update(dict.fromkeys(row))
            absent = wanted.names - seen.keys()
            if not (wanted.one_at_least and wanted.optional <= absent):
                absent -= wanted.optional
            if rows and absent:
                raise missing_column(absent, seen, path)
            names = list(seen | dict.fromkeys(wanted.names)) if wanted.all else sorted(wanted.names)
            columns = {name: [row.get(name) for row in rows] for name in names}
            texts = chunk.lines()
            numbers = np.array(lines, np.int64)
            yield Batch([Table(columns, numbers, lambda k: texts[numbers[k] - chunk.first])], bad)  # noqa: B023
        if seen and (absent := wanted.names - seen.keys()):
            raise missing_column(absent, seen, path)


def _objects(chunk: Chunk) -> tuple[list[dict[str, Any]], list[int], list[Bad]]:
    """Return the objects of a chunk, the number of each one's line, and the lines that are none."""
    rows, lines, bad = [], [], []
    for number, text in enumerate(chunk.lines(), chunk.first):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
            lines.append(number)
        elif text.strip():
            bad.append(Bad(number, text, "it is not an object in JSON"))
    return rows, lines, bad


_PARQUET_ROWS = 65_536


class Parquet(Format):
    """A table in Parquet. Instead of a line, a row has its number from 1."""

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if it has no column of a name.

        Without its end, which says what is where, nothing of a file can be read: it is one bad line.
        """
        parquet = required("pyarrow.parquet", "reading Parquet")
        try:
            opened = parquet.ParquetFile(path)
        except required("pyarrow", "reading Parquet").ArrowInvalid as error:
            yield Batch([], [Bad(1, "", f"it is no Parquet, or cut: {error}")])
            return
        with opened as file:
            names = wanted.among(file.schema_arrow.names, path)
            first = 1
            for rows in file.iter_batches(_PARQUET_ROWS, columns=names):
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                numbers = np.arange(first, first + len(rows))
                yield Batch([Table(columns, numbers, lambda k: str(rows.slice(k, 1).to_pylist()[0]))], [])  # noqa: B023
                first += len(rows)
        advance(path.stat().st_size)


_CSV_ROWS = 20_000


class CsvTables(Format):
    """Rows of fields between delimiters; without ``columns``, the first row has their names."""

    def __init__(self, columns: Sequence[str] | None, delimiter: str) -> None:
        if len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {delimiter!r}")
        self._columns = None if columns is None else list(columns)
        self._delimiter = delimiter
        self._numeric: set[str] | None = None

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if it has no column of a name."""
        source = _Lines(chunks)
        reader = csv.reader(source, delimiter=self._delimiter, strict=True)
        names = self._columns or _names(reader, path)
        if names is None:
            return
        kept = wanted.among(names, path)
        if len(set(names)) < len(names):
            raise ValueError(f"two columns in {path} have the same name: {', '.join(names)}")
        while not source.is_empty:
            rows, lines, bad = _read(reader, source, len(names), self._delimiter)
            if rows or bad:
                at = {name: names.index(name) for name in kept}
                yield self._batch(at, rows, lines, bad, wanted)

    def _batch(
        self, at: dict[str, int], rows: list[list[str]], lines: list[int], bad: list[Bad], wanted: Wanted
    ) -> Batch:
        columns: dict[str, Any] = {name: [row[k] for row in rows] for name, k in at.items()}
        if wanted.all and rows:
            columns |= self._numbers({name: columns[name] for name in at if name not in wanted.names})
        text_of = lambda row: self._delimiter.join(rows[row])  # noqa: E731
        return Batch([Table(columns, np.array(lines, np.int64), text_of)], bad)

    def _numbers(self, columns: dict[str, list[str]]) -> dict[str, Any]:
        """Return as numbers the columns that held nothing else in the first rows; NaN for other texts."""
        pandas = required("pandas", "where=")
        numbers = {name: pandas.to_numeric(pandas.Series(c), errors="coerce") for name, c in columns.items()}
        if self._numeric is None:
            self._numeric = {n for n, c in columns.items() if _is_numeric(c, numbers[n].isna().tolist())}
        return {name: numbers[name] for name in self._numeric}


def _is_numeric(column: list[str], absent: list[bool]) -> bool:
    texts = [text for text, is_absent in zip(column, absent, strict=True) if is_absent]
    return len(texts) < len(column) and not any(text.strip() for text in texts)


def _names(reader: Any, path: Path) -> list[str] | None:
    try:
        names: list[str] | None = next(reader, None)
    except csv.Error as error:
        raise ValueError(f"{path}: its first line, which names the columns, is wrong: {error}") from None
    return names


class _Lines:
    """The lines of a file with their numbers, and how many chunks of it have been begun.

    A record may have several lines, because quoted fields may. `record` are those that were taken since
    `begin_record`; `put_back_all_but_first` returns the others, to be read as records of their own.
    """

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._numbered = self._read(chunks)
        self._put_back: deque[tuple[int, str]] = deque()
        self.record: list[tuple[int, str]] = []
        self.begun = 0
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        numbered = self._put_back.popleft() if self._put_back else next(self._numbered)
        self.record.append(numbered)
        return numbered[1]

    def begin_record(self) -> None:
        self.record.clear()

    def put_back_all_but_first(self) -> None:
        self._put_back.extendleft(reversed(self.record[1:]))
        del self.record[1:]

    @property
    def is_empty(self) -> bool:
        return self.ended and not self._put_back

    def _read(self, chunks: Iterator[Chunk]) -> Iterator[tuple[int, str]]:
        for chunk in chunks:
            self.begun += 1
            for number, line in enumerate(chunk.lines(), chunk.first):
                yield number, line + "\n"
        self.ended = True


def _read(
    reader: Any, source: _Lines, width: int, delimiter: str
) -> tuple[list[list[str]], list[int], list[Bad]]:
    """Return the next rows, the line at which each ends, and the lines that are none.

    They are of two chunks at most, since rows may be long. Where a quote is not closed, or something follows
    a closed one, the record's first line is bad, and the others may be rows.
    """
    rows: list[list[str]] = []
    lines: list[int] = []
    bad: list[Bad] = []
    last = source.begun + 1
    while len(rows) + len(bad) < _CSV_ROWS and source.begun <= last:
        source.begin_record()
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            source.put_back_all_but_first()
            number, text = source.record[0]
            bad.append(Bad(number, text.rstrip("\n"), str(error)))
            continue
        number = source.record[-1][0]
        if len(row) == width:
            rows.append(row)
            lines.append(number)
        elif row:
            reason = f"it has {len(row)} fields, not {width}"
            bad.append(Bad(number, delimiter.join(row), reason))
    return rows, lines, bad
