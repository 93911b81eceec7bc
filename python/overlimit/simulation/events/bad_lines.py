"""The lines of a log that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

KEPT = 10
"""How many bad lines are kept; the others are counted."""

_LONGEST_TEXT = 1000


class BadLine(NamedTuple):
    """A line that could not be read.

    Parameters
    ----------
    file
        The file that it is in.
    line
        Its number, from 1.
    text
        What is written there: the first 1000 characters.
    reason
        Why it could not be read.
    """

    file: str
    line: int
    text: str
    reason: str


class BadLines:
    """What could not be read of logs. Iterating yields the first ten as (file, line, text, reason).

    ``reasons`` says how many there are of each reason, by default those of ``lines``.
    """

    __slots__ = ("_lines", "_reasons")

    def __init__(self, lines: Iterable[BadLine] = (), reasons: Mapping[str, int] | None = None) -> None:
        given = list(lines)
        self._reasons = dict(Counter(line.reason for line in given) if reasons is None else reasons)
        self._lines = [line._replace(text=line.text[:_LONGEST_TEXT]) for line in given[:KEPT]]

    @property
    def count(self) -> int:
        """How many lines could not be read."""
        return sum(self._reasons.values())

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many lines could not be read for each reason, the most frequent first."""
        return MappingProxyType(dict(sorted(self._reasons.items(), key=lambda each: -each[1])))

    def __iter__(self) -> Iterator[BadLine]:
        return iter(self._lines)

    def __bool__(self) -> bool:
        return self.count > 0

    def __add__(self, other: BadLines) -> BadLines:
        reasons = Counter(self._reasons) + Counter(other._reasons)
        return BadLines([*self, *islice(other, KEPT)], reasons)

    def __repr__(self) -> str:
        shown = "".join(f"\n  {file}:{line}: {reason}: {text}" for file, line, text, reason in self)
        return f"BadLines({self.count:,})" + shown
