"""Logs as Parquet, whose columns have types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from overlimit.simulation.logs.chunks import Chunk
from overlimit.simulation.logs.table import Bad, Batch, Format, Table, Wanted
from overlimit.simulation.optional import required

_ROWS = 65_536


class Parquet(Format):
    """A table in Parquet. Instead of a line, a row has its number from 1."""

    def batches(
        self, path: Path, chunks: Iterator[Chunk], wanted: Wanted, advance: Callable[[int], object]
    ) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if it has no column of a name.

        Without its end, which says what is where, nothing of a file can be read: it is one bad line.
        """
        parquet = required("pyarrow.parquet", "reading Parquet")
        try:
            opened = parquet.ParquetFile(path)
        except required("pyarrow", "reading Parquet").ArrowInvalid as error:
            yield Batch([], [Bad(1, "", f"it is no Parquet, or cut: {error}")])
            return
        with opened as file:
            names = wanted.among(file.schema_arrow.names, path)
            first = 1
            for rows in file.iter_batches(_ROWS, columns=names):
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                numbers = np.arange(first, first + len(rows))
                yield Batch([Table(columns, numbers, lambda k: str(rows.slice(k, 1).to_pylist()[0]))], [])  # noqa: B023
                first += len(rows)
        advance(path.stat().st_size)
