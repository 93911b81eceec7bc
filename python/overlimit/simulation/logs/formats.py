"""What a format makes of a file: tables of rows, and lines that are none. Patterns are such a format."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.chunks import ChunkReader


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

    ``names`` become events; of them a row may lack ``facts`` and some of the ``identifiers``, and all of
    these unless there must be ``one_at_least``. The others are wanted too if ``all``, for a function or a
    condition.
    """

    names: frozenset[str]
    identifiers: frozenset[str]
    facts: frozenset[str]
    all: bool
    one_at_least: bool

    def among(self, present: Sequence[str], path: Path | None = None, hint: str = "") -> list[str]:
        """Return which columns to read of those there are; raise ValueError if one of a name is not there."""
        if absent := self.names - set(present):
            raise ValueError(f"{missing_column(absent, present, path)}{hint}")
        return [name for name in present if self.all or name in self.names]


class Format(ABC):
    """How a log is written."""

    name: str = "pattern"
    has_numeric_times: ClassVar[bool] = True
    """Whether times may be numbers, which count in a unit."""
    joins_date: ClassVar[bool] = False
    """Whether the column ``time`` has the day of the column ``date`` already."""
    free_without_cost: ClassVar[bool] = False
    """Whether a row whose cost is missing costs nothing; else it is a bad line."""

    @abstractmethod
    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
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

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if there is no group of a name."""
        names = wanted.among(self._names)
        for chunk in log:
            lines = chunk.lines()
            numbers = np.arange(chunk.first, chunk.first + len(lines))
            yield matched(self._pattern.search, names, lines, numbers)


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
