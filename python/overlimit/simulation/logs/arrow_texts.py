"""Columns of texts as pyarrow holds them: the bytes of all, and where each begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit.simulation.optional import loaded, required

Positions = npt.NDArray[np.int64]


class Texts(NamedTuple):
    """A column of texts of pyarrow, as one piece; texts that are null have the length 0."""

    column: Any
    bytes: npt.NDArray[np.uint8]
    starts: Positions
    lengths: Positions

    def at(self, row: int) -> str:
        """Return a text."""
        start = self.starts[row]
        return self.bytes[start : start + self.lengths[row]].tobytes().decode("utf-8", "backslashreplace")

    def matrix(self, rows: Positions, length: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of rows that have one length."""
        count = len(self.bytes) - length + 1
        windows: npt.NDArray[np.uint8] = np.ndarray((count, length), np.uint8, self.bytes, strides=(1, 1))
        return windows[self.starts[rows]]

    def mask(self, bools: Any) -> npt.NDArray[np.bool_]:
        """Return a column of bools; false where it is null."""
        found: npt.NDArray[np.bool_] = bools.fill_null(False).to_numpy(zero_copy_only=False)
        return found


def texts_of(column: Any) -> Texts | None:
    """Return a column of texts; None if it is something else, or there is no pyarrow."""
    pyarrow = loaded("pyarrow")
    if pyarrow is None:
        return None
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, (list, tuple)) and {type(each) for each in column} <= {str, type(None)}:
        try:
            column = pyarrow.array(column, pyarrow.string())
        except UnicodeEncodeError:
            return None
    if not isinstance(column, pyarrow.StringArray):
        return None
    _, offsets, data = column.buffers()
    at = np.zeros(1, np.int64)
    if len(column):
        at = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    lengths = np.diff(at)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    letters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Texts(column, letters, at[:-1], lengths)


def slices(data: Any, starts: Positions, ends: Positions) -> Any:
    """Return a column of texts, each a part of ``data``, whose parts do not overlap and are in order."""
    pyarrow = required("pyarrow", "reading logs quickly")
    bounds = np.empty(2 * len(starts) + 1, np.int32)
    bounds[:-1:2], bounds[1::2], bounds[-1] = starts, ends, len(data)
    buffers = [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(data)]
    parts = pyarrow.StringArray.from_buffers(2 * len(starts), *buffers[1:])
    return parts.take(np.arange(0, 2 * len(starts), 2))


def dictionary_of(column: Any) -> tuple[npt.NDArray[np.int32], Texts] | None:
    """Return which text each row has, -1 where it is null, and the texts; None if the column has others."""
    pyarrow = loaded("pyarrow")
    if pyarrow is None:
        return None
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    texts = texts_of(column)
    if texts is not None:
        column = texts.column.dictionary_encode()
    if not isinstance(column, pyarrow.DictionaryArray):
        return None
    texts = texts_of(column.dictionary)
    if texts is None:
        return None
    codes = column.indices.cast("int32")
    return (codes.fill_null(-1) if codes.null_count else codes).to_numpy(), texts
