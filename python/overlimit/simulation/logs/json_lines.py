"""Logs of one JSON object a line.

pyarrow reads them once the first lines have said what the columns hold. It refuses a piece of a log in which
anything is different; that is read in halves, and the smallest of them by the standard library.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from overlimit._addresses import is_address
from overlimit.simulation.logs.arrow_texts import Positions
from overlimit.simulation.logs.chunks import ChunkReader
from overlimit.simulation.logs.formats import Bad, Batch, Format, Table, Wanted, missing_column
from overlimit.simulation.logs.lines import Lines, Mask
from overlimit.simulation.optional import is_installed, required

Row: TypeAlias = Mapping[str, Any]
KeyPath: TypeAlias = tuple[str, ...]

_FEW = 500
_EXACT = 2**53
_MOST_LINES_WITHOUT = 10_000
_KINDS = {str: "string", int: "int64", float: "float64", bool: "bool"}
_NOT_AN_OBJECT = "it is not an object in JSON"


class JsonLines(Format):
    """One JSON object a line; its keys are the columns, and a key that a line lacks is missing there.

    The keys of an object within an object are columns such as ``request.remote_ip``. A list of addresses
    is a text with commas, as ``X-Forwarded-For`` is.
    """

    name = "json"

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file.

        Raises ValueError for a column that no line has: one that no line may lack as soon as the first lines
        are read, others at the end.
        """
        reader = _Reader(wanted)
        for chunk in log:
            batch = reader.read(Lines(chunk))
            reader.check(log.path, at_end=False)
            yield batch
        reader.check(log.path, at_end=True)


class _Reader:
    """Reads the lines of a file, and remembers which columns there are and what they hold."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._has_pyarrow = is_installed("pyarrow")
        self._paths: dict[str, KeyPath] = {}
        self._kinds: dict[str, str] = {}
        self._rows = 0
        self._slowly_read = 0

    def read(self, lines: Lines) -> Batch:
        """Return what is in some lines."""
        is_plain = self._plain(lines)
        plain = np.flatnonzero(is_plain)
        batches = [self._by_library(lines, np.flatnonzero(~is_plain & (lines.ends > lines.starts)))]
        if not self._paths:
            batches.append(self._by_library(lines, plain[:_FEW]))
            plain = plain[_FEW:]
        batches += self._by_pyarrow(lines, plain)
        return Batch([t for each in batches for t in each.tables], [b for each in batches for b in each.bad])

    def check(self, path: Path, at_end: bool) -> None:
        """Raise ValueError for columns that no line has had."""
        absent = self._wanted.names - self._paths.keys()
        is_nobody = self._wanted.one_at_least and self._wanted.identifiers <= absent
        if not at_end:
            absent -= self._wanted.facts
            if not (is_nobody and self._rows >= _MOST_LINES_WITHOUT):
                absent -= self._wanted.identifiers
        if self._rows and absent:
            raise missing_column(absent, self._paths, path)

    def _names(self) -> list[str]:
        absent = sorted(self._wanted.names - self._paths.keys())
        return [*self._paths, *absent] if self._wanted.all else sorted(self._wanted.names)

    def _plain(self, lines: Lines) -> Mask:
        """Return the lines that, if they are JSON, pyarrow reads as the standard library does."""
        if not self._has_pyarrow or not len(lines):
            return np.zeros(len(lines), bool)
        letters = lines.buffer
        plain: Mask = (letters[lines.starts] == ord("{")) & (letters[lines.ends - 1] == ord("}"))
        if b"\0" in lines.data:
            plain &= ~lines.holding(np.flatnonzero(letters == 0))
        # pyarrow takes Inf for a number.
        if b"I" in lines.data:
            capitals = lines.places(ord("I"))
            plain &= ~lines.holding(capitals[lines.letters_at(capitals + 1) == ord("n")])
        if not lines.is_utf8():
            plain &= ~lines.not_ascii()
        return plain

    def _by_pyarrow(self, lines: Lines, which: Positions) -> Iterator[Batch]:
        if not len(which):
            return
        columns = self._columns(lines, which) if self._slowly_read <= max(self._rows // 2, _FEW) else None
        if columns is not None:
            self._rows += len(which)
            yield Batch([_table(columns, lines, which)], [])
        elif len(which) <= _FEW:
            yield self._by_library(lines, which)
        else:
            half = len(which) // 2
            yield from self._by_pyarrow(lines, which[:half])
            yield from self._by_pyarrow(lines, which[half:])

    def _columns(self, lines: Lines, which: Positions) -> dict[str, Any] | None:
        """Return the columns of some lines as pyarrow reads them; None if it refuses any of these."""
        arrow = required("pyarrow", "reading logs quickly")
        reader = required("pyarrow.json", "reading logs quickly")
        data = lines.only(which)
        unexpected = "error" if self._wanted.all else "ignore"
        try:
            table = reader.read_json(
                arrow.BufferReader(data),
                reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
                reader.ParseOptions(self._schema(arrow), unexpected_field_behavior=unexpected),
            )
        except arrow.ArrowInvalid:
            return None
        columns = {name: self._column(table, name) for name in self._names()}
        is_inexact = any(_has_large_floats(columns[name]) for name in self._wanted.names)
        return columns if len(table) == len(which) and not is_inexact else None

    def _schema(self, arrow: Any) -> Any:
        """Return what each column must hold for pyarrow; nothing where that is not known yet."""
        tree: dict[str, Any] = {}
        for name in self._names():
            known = self._paths.get(name)
            for path in {(name,), tuple(name.split("."))} if known is None else {known}:
                _plant(tree, path, self._kinds.get(name, "null"))
        return arrow.schema(_fields(arrow, tree))

    def _column(self, table: Any, name: str) -> Any:
        compute = required("pyarrow.compute", "reading logs quickly")
        first, *others = self._paths.get(name, (name,))
        column = table[first].combine_chunks()
        column = compute.struct_field(column, others) if others else column
        return column if not str(column.type).startswith("struct") else [None] * len(table)

    def _by_library(self, lines: Lines, which: Positions) -> Batch:
        rows: list[Row] = []
        good: list[int] = []
        bad: list[Bad] = []
        for k in which.tolist():
            text = lines.text(k)
            row = _object(text)
            if row is not None:
                rows.append(self._flat(row))
                good.append(k)
            elif text.strip():
                bad.append(Bad(lines.first + k, text, _NOT_AN_OBJECT))
        columns = {name: [row.get(name) for row in rows] for name in self._names()}
        for name, column in columns.items():
            self._learn(name, column)
        self._rows += len(rows)
        self._slowly_read += len(rows)
        return Batch([_table(columns, lines, np.array(good, np.int64))], bad)

    def _flat(self, row: Row, outer: KeyPath = ()) -> Row:
        """Return an object with the keys of those in it as its own, and remember where they were."""
        found: dict[str, Any] = {}
        for key, value in row.items():
            path = (*outer, key)
            if isinstance(value, dict):
                found |= {name: each for name, each in self._flat(value, path).items() if name not in row}
            else:
                name = ".".join(path)
                self._paths.setdefault(name, path)
                found[name] = _joined(value) if isinstance(value, list) else value
        return found

    def _learn(self, name: str, column: list[Any]) -> None:
        """Remember what a column holds: what most rows of it had when it was first seen."""
        types = Counter(map(type, column))
        del types[type(None)]
        kinds = {_KINDS.get(each, "null") for each in types}
        if kinds == {"int64", "float64"} and self._kinds.get(name, "int64") == "int64":
            self._kinds[name] = "float64"
        elif types and name not in self._kinds:
            self._kinds[name] = _KINDS.get(types.most_common(1)[0][0], "null")


def _table(columns: dict[str, Any], lines: Lines, which: Positions) -> Table:
    return Table(columns, lines.first + which, lambda row: lines.text(int(which[row])))


def _object(text: str) -> Row | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _joined(values: list[Any]) -> Any:
    """Return a list of addresses as a text, None for an empty list, and any other as it is."""
    if not values:
        return None
    is_list = all(isinstance(each, str) for each in values) and is_address(values[-1])
    return ", ".join(values) if is_list else values


def _plant(tree: dict[str, Any], path: KeyPath, kind: str) -> None:
    *outer, last = path
    for key in outer:
        if not isinstance(tree.get(key), dict):
            tree[key] = {}
        tree = tree[key]
    tree.setdefault(last, kind)


def _fields(arrow: Any, tree: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a schema from kinds by name, or dicts of these for objects."""
    return [
        (name, arrow.struct(_fields(arrow, each)) if isinstance(each, dict) else arrow.type_for_alias(each))
        for name, each in tree.items()
    ]


def _has_large_floats(column: Any) -> bool:
    """Tell whether any number may have lost digits by being read as a float."""
    if str(column.type) != "double":
        return False
    numbers = column.to_numpy(zero_copy_only=False)
    return bool((np.abs(numbers) >= _EXACT).any())
