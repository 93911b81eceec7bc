"""Logs in the extended format of W3C, as CloudFront and IIS write them: ``#Fields:`` names the columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from overlimit.simulation.logs.access_log import whole_numbers, without_dashes
from overlimit.simulation.logs.chunks import ChunkReader
from overlimit.simulation.logs.formats import Bad, Batch, Format, Table, Wanted

_FIELDS = "#Fields:"
_ALIASES = {
    "ip": "c-ip",
    "user": "cs-username",
    "method": "cs-method",
    "path": "cs-uri-stem",
    "status": "sc-status",
    "bytes": "sc-bytes",
    "referer": "cs(Referer)",
    "agent": "cs(User-Agent)",
}
_LIST_OF_ADDRESSES = "x-forwarded-for"
_WHOLE = ("status", "bytes")


class W3cLines(Format):
    """Lines of fields between tabs or spaces, whose names are those of the format ``combined``, too.

    ``time`` has the day of the column ``date``. Both are in UTC, as the format says.
    """

    name = "w3c"
    has_numeric_times = False
    joins_date = True
    free_without_cost = True

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if no field of a name is among its first ones."""
        fields: list[str] = []
        names: list[str] | None = None
        for chunk in log:
            rows, bad = _Rows(), []
            tables = []
            for number, line in enumerate(chunk.lines(), chunk.first):
                if line.startswith(_FIELDS):
                    tables.append(rows.table(fields, names or [], wanted.all))
                    rows, fields = _Rows(), line[len(_FIELDS) :].split()
                    names = wanted.among(_all_names(fields), log.path) if names is None else names
                elif line.strip() and not line.startswith("#"):
                    reason = rows.add(number, line, len(fields))
                    bad += [Bad(number, line, reason)] if reason else []
            tables.append(rows.table(fields, names or [], wanted.all))
            yield Batch([table for table in tables if len(table.lines)], bad)


class _Rows:
    """Rows under the same names: their values, numbers and lines."""

    def __init__(self) -> None:
        self._values: list[Sequence[str]] = []
        self._numbers: list[int] = []
        self._lines: list[str] = []

    def add(self, number: int, line: str, count: int) -> str | None:
        """Add a row of so many fields, or return why it is none."""
        values = line.split("\t" if "\t" in line else None)
        if len(values) != count:
            return f"it has {len(values)} fields, not {count}" if count else f"no line {_FIELDS} is before it"
        self._values.append(values)
        self._numbers.append(number)
        self._lines.append(line)
        return None

    def table(self, fields: Sequence[str], names: Sequence[str], typed: bool) -> Table:
        """Return some columns of the rows; a field that the rows lack is None in each."""
        given = dict(zip(fields, zip(*self._values, strict=True), strict=False))
        none = (None,) * len(self._values)
        columns: dict[str, Any] = {name: _column(given, name) or none for name in names}
        table = without_dashes(Table(columns, np.array(self._numbers, np.int64), self._lines.__getitem__))
        numbers = {name: whole_numbers(table.columns[name]) for name in _WHOLE if typed and name in names}
        return table._replace(columns={**table.columns, **numbers})


def _all_names(fields: Sequence[str]) -> list[str]:
    aliases = [alias for alias, field in _ALIASES.items() if field in fields and alias not in fields]
    return [*fields, *aliases]


def _column(given: Mapping[str, tuple[str, ...]], name: str) -> Sequence[str] | None:
    column = given.get(name) or given.get(_ALIASES.get(name, ""))
    if name == "time" and column and "date" in given:
        return [f"{day} {time}Z" for day, time in zip(given["date"], column, strict=True)]
    if column and _LIST_OF_ADDRESSES in name.lower():  # in which no space can be
        return [each.replace(",+", ",").replace(",%20", ",") for each in column]
    if name == "path" and column and "path" not in given and "cs-uri-query" in given:
        pairs = zip(column, given["cs-uri-query"], strict=True)
        return [path if query in {"", "-"} else f"{path}?{query}" for path, query in pairs]
    return column
