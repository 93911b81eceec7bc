"""The formats ``combined`` and ``common`` of nginx and Apache.

Most lines are plain: they have no escapes, and quotes and spaces where the format has them. Where their
fields are, numpy finds from the places of the quotes. A regular expression decides about the others, and
about all lines where there is no pyarrow.
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
_REQUEST = re.compile(r"([A-Za-z-]+) (?:(.+) HTTP/[0-9.]+|(.+))")
_REQUEST_GROUPS = r"^(?P<method>[A-Za-z-]+) (?:(?P<path>.+) HTTP/[0-9.]+|(?P<rest>.+))$"

_FIELDS = ("ip", "user", "time", "method", "path", "status", "bytes", "referer", "agent")
_QUOTED_FIELDS = ("request", "referer", "agent")
_OF_REQUEST = {"method", "path"}
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
            batch = self._batch(Lines(chunk, with_quotes=True), stored)
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
    """Of lines that seem plain: which they are, where they begin, their first fields end, and quotes are."""

    of: Lines
    lines: Positions
    starts: Positions
    ip_ends: Positions
    quotes: npt.NDArray[np.int64]

    def only(self, good: Mask) -> _Fields:
        """Return those of some of the lines."""
        if good.all():
            return self
        return _Fields(self.of, *(each[good] for each in self[1:]))

    @property
    def has_agent(self) -> bool:
        """Whether the lines have a referer and an agent."""
        return bool(self.quotes.shape[1] > 2)

    def bounds(self, name: str) -> tuple[Positions, Positions]:
        """Return where a field begins and ends in each line."""
        if name in _QUOTED_FIELDS:
            k = 2 * _QUOTED_FIELDS.index(name)
            return self.quotes[:, k] + 1, self.quotes[:, k + 1]
        opening, closing = self.quotes[:, 0], self.quotes[:, 1]
        found: dict[str, Callable[[], tuple[Positions, Positions]]] = {
            "prefix": lambda: (self.starts, opening - _TIME - 2),
            "ip": lambda: (self.starts, self.ip_ends),
            "user": lambda: (self.ip_ends + len(" - "), opening - _TIME - 2),
            "time": lambda: (opening - _TIME - 1, opening - 1),
            "status": lambda: (closing + 2, closing + 5),
            "bytes": lambda: (closing + 6, self._size_ends()),
        }
        return found[name]()

    def _size_ends(self) -> Positions:
        ends: Positions = self.quotes[:, 2] - 1 if self.has_agent else self.of.ends[self.lines]
        return ends

    def texts(self, name: str) -> Any:
        """Return a field of each line."""
        return slices(self.of.data, *self.bounds(name))


def _fields_of(lines: Lines, count: int) -> _Fields:
    """Find the lines in which quotes, spaces, the time, the status and the size are where they should be."""
    first_marks = np.append(0, lines.end_marks[:-1] + 1)
    counts = lines.end_marks - first_marks
    which = np.flatnonzero((counts >= count if count > 2 else counts == count) & ~_is_special(lines))
    if len(which) == len(lines) and (counts == count).all():
        quotes = lines.marks.reshape(-1, count + 1)[:, :-1]
    else:
        quotes = lines.marks.take(first_marks[which][:, None] + np.arange(count))
    fields = _Fields(lines, which, lines.starts[which], lines.starts[which], quotes)
    for check in (_has_time, _has_numbers, _has_agent):
        fields = fields.only(check(fields))
    return _with_names(fields)


def _with_names(fields: _Fields) -> _Fields:
    """Return the lines that begin with an address, a dash and a user, which mostly is a dash."""
    letters_at = fields.of.letters_at
    begin, end = fields.bounds("prefix")
    ip_ends = end - len(" - -")
    good: Mask = ip_ends > begin
    for place, letter in enumerate(b" - -"):
        good &= letters_at(np.maximum(ip_ends, 0) + place) == letter
    named = np.flatnonzero(~good)
    if len(named):
        firsts, has_two = _spaces(slices(fields.of.data, begin[named], end[named]))
        ip_ends[named] = begin[named] + firsts
        good[named] = has_two & (firsts > 0) & (ip_ends[named] + 3 < end[named])
        for place, letter in enumerate(b" - "):
            good[named] &= letters_at(ip_ends[named] + place) == letter
    return fields._replace(ip_ends=ip_ends).only(good)


def _spaces(column: Any) -> tuple[Positions, Mask]:
    """Return where the first space of each text is, and which texts have two."""
    texts = texts_of(column)
    assert texts is not None
    spaces = np.flatnonzero(texts.bytes == _SPACE)
    number = np.searchsorted(spaces, np.append(texts.starts, len(texts.bytes)))
    first = np.append(spaces, 0)[number[:-1]] - texts.starts
    has_two: Mask = np.diff(number) == 2
    return np.maximum(first, 0), has_two


def _is_special(lines: Lines) -> Mask:
    """Return which lines have escapes, or bytes that are no text."""
    special = np.zeros(len(lines), bool) if lines.is_utf8() else lines.not_ascii()
    if b"\\" in lines.data:
        special |= lines.holding(lines.places(ord("\\")))
    return special


def _has_time(fields: _Fields) -> Mask:
    """Return which lines have room for a time and its brackets before the request."""
    _, end = fields.bounds("prefix")
    good: Mask = end - fields.starts >= _SHORTEST_PREFIX
    end = np.where(good, end, 0)
    letters_at = fields.of.letters_at
    for place, letter in ((0, _SPACE), (1, _OPEN), (_TIME, _CLOSE), (_TIME + 1, _SPACE)):
        good &= letters_at(end + place) == letter
    return good


def _has_numbers(fields: _Fields) -> Mask:
    """Return which lines have a status of three digits and a size that is a number or a dash."""
    letters_at, closing = fields.of.letters_at, fields.quotes[:, 1]
    begin, end = fields.bounds("bytes")
    width = end - begin
    good: Mask = (width > 0) & (width <= _MOST_DIGITS_OF_SIZE)
    begin, width, closing = (np.where(good, each, 0) for each in (begin, width, closing))
    good &= (letters_at(closing + 1) == _SPACE) & (letters_at(closing + 5) == _SPACE)
    for place in (2, 3, 4):
        good &= letters_at(closing + place) - _ZERO <= 9
    sizes: Mask = (width == 1) & (letters_at(begin) == _DASH)
    if not sizes.all():
        sizes |= _is_digits(fields.of, begin, width)
    good &= sizes
    return good


def _has_agent(fields: _Fields) -> Mask:
    """Return which lines go on with the quotes of a referer and an agent, if they should."""
    if not fields.has_agent:
        return np.ones(len(fields.lines), bool)
    letters_at, quotes = fields.of.letters_at, fields.quotes
    after = letters_at(quotes[:, 5] + 1)
    good: Mask = (after == ord("\n")) | (after == _SPACE)
    good &= letters_at(quotes[:, 2] - 1) == _SPACE
    good &= (quotes[:, 4] == quotes[:, 3] + 2) & (letters_at(quotes[:, 3] + 1) == _SPACE)
    return good


def _is_digits(lines: Lines, begin: Positions, width: Positions) -> Mask:
    good = np.ones(len(begin), bool)
    for place in range(int(width.max(initial=0))):
        digit = lines.letters_at(begin + place) - _ZERO <= 9
        good &= digit | (width <= place)
    return good


def _columns(fields: _Fields, names: list[str]) -> tuple[dict[str, Any], Mask]:
    """Return fields of some lines, and which of these begin with one address and no more."""
    arrow = required("pyarrow", "reading logs quickly")
    compute = required("pyarrow.compute", "reading logs quickly")
    # Addresses come again and again, so each is looked at once.
    ips = fields.texts("ip").dictionary_encode()
    is_several = compute.match_substring(ips.dictionary, " ").to_numpy(zero_copy_only=False)
    good = ~is_several[ips.indices.to_numpy()] if is_several.any() else np.ones(len(ips), bool)
    columns = {name: fields.texts(name) for name in names if name != "ip"}
    columns = {name: each if name == "time" else _without_dashes(each) for name, each in columns.items()}
    if "ip" in names:
        columns["ip"] = arrow.DictionaryArray.from_arrays(ips.indices, _without_dashes(ips.dictionary))
    if not good.all():
        columns = {name: column.filter(good) for name, column in columns.items()}
    return columns, good


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
