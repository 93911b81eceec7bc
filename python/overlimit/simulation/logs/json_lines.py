"""Logs of one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.logs.table import Bad, Batch, Format, Table, Wanted, missing_column


class JsonLines(Format):
    """One JSON object a line; its keys are the columns, and a key that a line lacks is missing there."""

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file.

        Raises ValueError for a column that no line has: one that no line may lack as soon as the first lines
        are read, others at the end.
        """
        seen: dict[str, None] = {}
        for chunk in chunks:
            rows, lines, bad = _objects(chunk)
            for row in rows:
                seen.update(dict.fromkeys(row))
            absent = wanted.names - seen.keys()
            if not (wanted.one_at_least and wanted.optional <= absent):
                absent -= wanted.optional
            if rows and absent:
                raise missing_column(absent, seen, path)
            names = list(seen | dict.fromkeys(wanted.names)) if wanted.all else sorted(wanted.names)
            columns = {name: [row.get(name) for row in rows] for name in names}
            texts = chunk.lines()
            numbers = np.array(lines, np.int64)
            yield Batch([Table(columns, numbers, lambda k: texts[numbers[k] - chunk.first])], bad)  # noqa: B023
        if seen and (absent := wanted.names - seen.keys()):
            raise missing_column(absent, seen, path)


def _objects(chunk: Chunk) -> tuple[list[dict[str, Any]], list[int], list[Bad]]:
    """Return the objects of a chunk, the number of each one's line, and the lines that are none."""
    rows, lines, bad = [], [], []
    for number, text in enumerate(chunk.lines(), chunk.first):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
            lines.append(number)
        elif text.strip():
            bad.append(Bad(number, text, "it is not an object in JSON"))
    return rows, lines, bad
