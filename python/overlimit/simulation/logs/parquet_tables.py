"""Logs in Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overlimit.simulation.logs.chunks import ChunkReader
from overlimit.simulation.logs.formats import Bad, Batch, Format, Table, Wanted
from overlimit.simulation.optional import required

_ROWS = 65_536


class Parquet(Format):
    """A table in Parquet. Instead of a line, a row has its number from 1.

    The fields of a struct are columns such as ``request.remote_ip``.
    """

    name = "parquet"

    def batches(self, log: ChunkReader, wanted: Wanted) -> Iterator[Batch]:
        """Yield what is in one file; raise ValueError if it has no column of a name.

        Without its end, which says what is where, nothing of a file can be read: it is one bad line.
        """
        parquet = required("pyarrow.parquet", "reading Parquet")
        try:
            opened = parquet.ParquetFile(log.path)
        except required("pyarrow", "reading Parquet").ArrowInvalid as error:
            yield Batch([], [Bad(1, "", f"it is no Parquet, or cut: {error}")])
            return
        with opened as file:
            paths = _paths(file.schema_arrow)
            names = wanted.among(list(paths), log.path)
            tops = list(dict.fromkeys(paths[name][0] for name in names))
            first = 1
            for rows in file.iter_batches(_ROWS, columns=tops, use_threads=False):
                columns = {name: _column(rows, paths[name]) for name in names}
                numbers = np.arange(first, first + len(rows))
                yield Batch([Table(columns, numbers, lambda k: str(rows.slice(k, 1).to_pylist()[0]))], [])  # noqa: B023
                first += len(rows)
        log.advance(log.path.stat().st_size)


def _paths(fields: Any, outer: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Return where each column is that holds no others, by its name."""
    found: dict[str, tuple[str, ...]] = {}
    for field in fields:
        path = (*outer, field.name)
        if str(field.type).startswith("struct"):
            found |= _paths(field.type, path)
        else:
            found.setdefault(".".join(path), path)
    return found


def _column(rows: Any, path: tuple[str, ...]) -> Any:
    compute = required("pyarrow.compute", "reading Parquet")
    first, *others = path
    return compute.struct_field(rows[first], others) if others else rows[first]
