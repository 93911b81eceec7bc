"""Lines that a regular expression takes apart: its named groups are the columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.logs.table import Bad, Batch, Format, Table, Wanted

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

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if there is no group of a name."""
        names = wanted.among(self._names)
        for chunk in chunks:
            lines = chunk.lines()
            yield matched(
                self._pattern.search, names, lines, np.arange(chunk.first, chunk.first + len(lines))
            )


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
