"""Lines of a log that could not be read: how many, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_KEPT = 10
_LONGEST_TEXT = 1000


class BadLine(NamedTuple):
    """A line that could not be read: its file, its number from 1, and its text."""

    file: str
    line: int
    text: str


class BadLines:
    """What could not be read of logs. Iterating yields the first ten as (file, line, text).

    ``count`` says how many there are in all, by default as many as ``lines``.
    """

    __slots__ = ("_count", "_lines")

    def __init__(self, lines: Iterable[BadLine] = (), count: int | None = None) -> None:
        given = list(lines)
        self._count = len(given) if count is None else count
        self._lines = [line._replace(text=line.text[:_LONGEST_TEXT]) for line in given[:_KEPT]]

    @property
    def count(self) -> int:
        """How many lines could not be read."""
        return self._count

    def __iter__(self) -> Iterator[BadLine]:
        return iter(self._lines)

    def __bool__(self) -> bool:
        return self._count > 0

    def __add__(self, other: BadLines) -> BadLines:
        return BadLines([*self, *islice(other, _KEPT)], self._count + other._count)

    def __repr__(self) -> str:
        shown = "".join(f"\n  {file}:{line}: {text}" for file, line, text in self)
        return f"BadLines({self._count:,})" + shown
