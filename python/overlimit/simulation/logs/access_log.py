"""The formats ``combined`` and ``common`` of nginx and Apache.

Most lines are plain: no escapes, no control characters, no more quotes than the format has. Those are split
by pyarrow's reader of CSV, which is several times as fast as a regular expression; a regular expression
decides about the others, and about all of them where there is no pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.chunks import Chunk, decoded
from overlimit.simulation.logs.formats import Batch, Format, Table, Wanted, matched
from overlimit.simulation.optional import required

_QUOTED = r'"(?P<%s>[^"\\]*(?:\\.[^"\\]*)*)"'
_COMMON = (
    r"(?P<ip>[^ ]+) [^ ]+ (?P<user>[^ ]+) (?P<time>\[[^\]]+\]) "
    + _QUOTED % "request"
    + r" (?P<status>[0-9]{3}) (?P<bytes>[0-9]+|-)"
)
_AGENT = " " + _QUOTED % "referer" + " " + _QUOTED % "agent"
_MORE = r"(?: .*)?"
COMMON = re.compile(_COMMON + _MORE)
_REQUEST = re.compile(r"([A-Za-z-]+) (?:(.+) HTTP/[0-9.]+|(.+))")

_FIELDS = ("ip", "user", "time", "method", "path", "status", "bytes", "referer", "agent")
_OF_REQUEST = {"method", "path"}
_WHOLE = ("status", "bytes")

_NEWLINE, _QUOTE, _SPECIAL = 1, 2, 3
_KINDS = np.zeros(256, np.uint8)
_KINDS[:32] = _KINDS[127:] = _KINDS[ord("\\")] = _SPECIAL
_KINDS[ord("\n")] = _NEWLINE
_KINDS[ord('"')] = _QUOTE
_FIRST_PLAIN, _LAST_PLAIN = np.uint8(32), np.uint8(126)


class AccessLog(Format):
    """Access logs in one of the two formats; if ``combined``, lines end with the referer and the agent."""

    has_numeric_times = False
    free_without_cost = True

    def __init__(self, *, combined: bool) -> None:
        self._fields = _FIELDS if combined else _FIELDS[:-2]
        self._match = re.compile(_COMMON + (_AGENT if combined else "") + _MORE).fullmatch
        self._split = partial(_split, quotes=6 if combined else 2)
        self._layout = ["ip", "ident", "user", "day", "zone", "request", "status", "bytes"]
        self._layout += ["referer", "agent"] if combined else []

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if the format has no field of a name."""
        names = set(wanted.among(self._fields))
        stored = sorted(names - _OF_REQUEST) + (["request"] if names & _OF_REQUEST else [])
        for chunk in chunks:
            batch = self._batch(chunk, stored)
            yield batch._replace(tables=[_finished(table, wanted.all) for table in batch.tables])

    def _batch(self, chunk: Chunk, names: list[str]) -> Batch:
        csv = _arrow_csv()
        if csv is None:
            lines = chunk.lines()
            return self._matched(names, lines, np.arange(chunk.first, chunk.first + len(lines)))
        split = self._split(chunk.data)
        plain, refused = _read_plain(csv, split, chunk.first, self._layout, names)
        others = [
            (k, decoded(split.line(k)).removesuffix("\r")) for k in np.flatnonzero(split.special).tolist()
        ]
        numbers = np.array([chunk.first + k for k, _ in others] + [line for line, _ in refused], np.int64)
        batch = self._matched(names, [text for _, text in others] + [text for _, text in refused], numbers)
        return Batch([plain, *batch.tables], batch.bad)

    def _matched(self, names: list[str], lines: list[str], numbers: npt.NDArray[np.int64]) -> Batch:
        batch = matched(self._match, names, lines, numbers)
        tables = [
            table._replace(columns={name: _without_dashes(name, c) for name, c in table.columns.items()})
            for table in batch.tables
        ]
        return batch._replace(tables=tables)


class _Split(NamedTuple):
    """Lines, where each begins, and which of them are special."""

    data: bytes
    starts: npt.NDArray[np.int64]
    special: npt.NDArray[np.bool_]

    def line(self, k: int) -> bytes:
        begin, end = self.starts[k : k + 2].tolist()
        return self.data[begin : end - 1]

    def plain(self) -> bytes:
        """Return the other lines."""
        if not self.special.any():
            return self.data
        kept = np.repeat(~self.special, np.diff(self.starts))
        return np.frombuffer(self.data, np.uint8)[kept].tobytes()


def _split(data: bytes, quotes: int) -> _Split:
    """Find the lines that are not surely of the format's plain form."""
    data = data if data.endswith(b"\n") else data + b"\n"
    buffer = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(
        (buffer - _FIRST_PLAIN > _LAST_PLAIN - _FIRST_PLAIN) | (buffer == ord('"')) | (buffer == ord("\\"))
    )
    kinds = _KINDS[buffer[at]]
    ends = at[kinds == _NEWLINE]
    line = np.cumsum(kinds == _NEWLINE)
    quote = kinds == _QUOTE
    special = np.bincount(line[quote], minlength=len(ends)) != quotes
    special[line[kinds == _SPECIAL]] = True
    marks = at[quote][~special[line[quote]]].reshape(-1, quotes)
    special[np.flatnonzero(~special)] = ~_is_plain(buffer, marks)
    return _Split(data, np.concatenate([[0], ends + 1]), special)


def _is_plain(buffer: npt.NDArray[np.uint8], marks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell of each line, by where its quotes are, whether they enclose the fields that they should."""
    opening, closing = marks[:, ::2], marks[:, 1::2]
    plain: npt.NDArray[np.bool_] = (buffer[opening - 1] == ord(" ")).all(axis=1)
    plain &= buffer[opening[:, 0] - 2] == ord("]")
    after = buffer[closing + 1]
    if marks.shape[1] == 2:
        plain &= after[:, 0] == ord(" ")
    else:
        plain &= (after[:, :2] == ord(" ")).all(axis=1) & (after[:, 2] == ord("\n"))
        plain &= opening[:, 2] == closing[:, 1] + 2
    return plain


def _arrow_csv() -> Any:
    """Return pyarrow's reader of CSV; None without pyarrow."""
    try:
        return required("pyarrow.csv", "reading logs quickly")
    except ImportError:
        return None


def _read_plain(
    csv: Any, split: _Split, first: int, layout: list[str], names: list[str]
) -> tuple[Table, list[tuple[int, str]]]:
    """Return the plain lines that have the form they should, and the others with their numbers."""
    pyarrow = required("pyarrow", "reading logs quickly")
    plain = np.flatnonzero(~split.special)
    refused: list[int] = []

    def refuse(row: Any) -> str:
        refused.append(row.number - 1)
        return "skip"

    data = split.plain()
    if data:
        table = csv.read_csv(pyarrow.BufferReader(data), **_options(csv, layout, names, refuse, len(data)))
        rows = np.delete(plain, refused)
        good = _is_valid(table).to_numpy()
        refused = [*plain[refused].tolist(), *rows[~good].tolist()]
        rows, table = rows[good], table.filter(good)
    else:
        rows, table = plain, None
    columns = {name: _field(table, name) for name in names}
    text_of = lambda row: decoded(split.line(int(rows[row])))  # noqa: E731
    return Table(columns, first + rows, text_of), [(first + k, decoded(split.line(k))) for k in refused]


def _options(
    csv: Any, layout: list[str], names: list[str], refuse: Callable[[Any], str], size: int
) -> dict[str, Any]:
    pyarrow = required("pyarrow", "reading logs quickly")
    always = {"ip", "ident", "user", "status", "bytes"}
    read = always | {"day", "zone"} | set(names) - {"time"}
    return {
        "read_options": csv.ReadOptions(use_threads=False, block_size=size + 1, column_names=layout),
        "parse_options": csv.ParseOptions(
            delimiter=" ", quote_char='"', escape_char=False, double_quote=False, invalid_row_handler=refuse
        ),
        "convert_options": csv.ConvertOptions(
            column_types=dict.fromkeys(layout, pyarrow.string()),
            include_columns=[name for name in layout if name in read],
            strings_can_be_null=True,
            null_values=["-"],
        ),
    }


def _is_valid(table: Any) -> Any:
    """Tell of each row whether its fields are what the regular expression takes."""
    compute = required("pyarrow.compute", "reading logs quickly")
    status = compute.and_(
        compute.ascii_is_decimal(table["status"]), compute.equal(compute.binary_length(table["status"]), 3)
    )
    valid = compute.and_(
        compute.fill_null(status, False), compute.fill_null(compute.ascii_is_decimal(table["bytes"]), True)
    )
    for name in ("ip", "ident", "user"):
        valid = compute.and_(valid, compute.fill_null(compute.not_equal(table[name], ""), True))
    return valid


def _field(table: Any, name: str) -> Any:
    if table is None:
        return []
    if name != "time":
        return table[name]
    compute = required("pyarrow.compute", "reading logs quickly")
    return compute.binary_join_element_wise(
        compute.fill_null(table["day"], "-"), compute.fill_null(table["zone"], "-"), " "
    )


def _without_dashes(name: str, column: Any) -> list[str | None]:
    return list(column) if name == "time" else [None if value == "-" else value for value in column]


def _finished(table: Table, typed: bool) -> Table:
    """Add what is made of other fields, and if ``typed``, turn numbers into numbers."""
    columns = dict(table.columns)
    if (requests := columns.pop("request", None)) is not None:
        columns["method"], columns["path"] = _taken_apart(requests)
    if typed:
        columns |= {name: _numbers(columns[name]) for name in _WHOLE}
    return table._replace(columns=columns)


def _taken_apart(requests: Any) -> tuple[list[str | None], list[str | None]]:
    """Return the methods and the paths of requests; None of those that are none."""
    texts = requests if isinstance(requests, list) else requests.to_pylist()
    found = [_REQUEST.fullmatch(text) if text else None for text in texts]
    return [m and m[1] for m in found], [m and (m[2] or m[3]) for m in found]


def _numbers(column: Any) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Return whole numbers; NaN where there is none."""
    texts = column if isinstance(column, list) else column.to_pylist()
    numbers = np.array([np.nan if text is None else float(text) for text in texts], np.float64)
    # No comparison holds for NaN.
    return numbers.astype(np.int64) if numbers.size and (numbers < 2**53).all() else numbers
