"""What the formats make of a file: tables of texts and numbers, and the lines that could not be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.chunks import Chunk


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
        """Yield what is in one file, in its order.

        Raises ValueError if a column that is wanted is not there.
        """


def missing_column(names: Set[str], present: Iterable[str], path: Path | None = None) -> ValueError:
    """Return the error for columns that are not there."""
    columns = f"column {' or '.join(map(repr, sorted(names)))}"
    where = "" if path is None else f" in {path}"
    found = ", ".join(map(repr, present))
    return ValueError(f"there is no {columns}{where}; there are {found or 'none'}")
