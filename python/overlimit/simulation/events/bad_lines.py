"""The lines of a log that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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

    ``counts`` says how many there are of each log and reason, by default those of ``lines``. Of a log that
    was read more than once, a line counts once.
    """

    __slots__ = ("_counts", "_lines")

    def __init__(
        self, lines: Iterable[BadLine] = (), counts: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        given = list(dict.fromkeys(lines))
        self._counts = dict(Counter((each.file, each.reason) for each in given) if counts is None else counts)
        self._lines = [line._replace(text=line.text[:_LONGEST_TEXT]) for line in given[:KEPT]]

    @property
    def count(self) -> int:
        """How many lines could not be read."""
        return sum(self._counts.values())

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many lines could not be read of each log for each reason."""
        return MappingProxyType(self._counts)

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many lines could not be read for each reason, the most frequent first."""
        found: Counter[str] = Counter()
        for (_, reason), count in self._counts.items():
            found[reason] += count
        return MappingProxyType(dict(found.most_common()))

    def __iter__(self) -> Iterator[BadLine]:
        return iter(self._lines)

    def __bool__(self) -> bool:
        return self.count > 0

    def __add__(self, other: BadLines) -> BadLines:
        # Each reading of a log finds the same lines, so that with the most has all that the other has.
        return BadLines([*self, *other], Counter(self._counts) | Counter(other._counts))

    def __repr__(self) -> str:
        shown = "".join(f"\n  {file}:{line}: {reason}: {text}" for file, line, text, reason in self)
        return f"BadLines({self.count:,})" + shown
