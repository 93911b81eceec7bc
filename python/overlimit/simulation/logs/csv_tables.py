"""Logs as CSV. Identifiers and times are texts as they are written."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.logs.formats import Bad, Batch, Format, Table, Wanted
from overlimit.simulation.optional import required

_ROWS = 20_000


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
    while len(rows) + len(bad) < _ROWS and source.begun <= last:
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
