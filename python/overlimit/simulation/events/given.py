"""Columns as people have them (lists, numpy, pandas, pyarrow), as one thing: an array and what is missing.

Nothing is interpreted here: texts stay texts, and whether a number is an instant is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.optional import loaded, required

Array: TypeAlias = npt.NDArray[Any]

_READ_AS = {
    "string_view": "large_string",
    "binary_view": "large_binary",
    "decimal128": "double",
    "decimal256": "double",
}


class Given(NamedTuple):
    """A column. Row i has ``array[i]``, or ``array[codes[i]]`` if there are codes, where -1 is none.

    The array is one-dimensional and of the machine's byte order; texts and bytes are objects. ``missing`` are
    the rows that have no value, besides those whose value is None, NaN, NaT or NA.
    """

    array: Array
    codes: npt.NDArray[np.int64] | None = None
    missing: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.array if self.codes is None else self.codes)

    def at(self, row: int) -> Any:
        """Return the value of a row as Python shows it; None when it is missing."""
        if self.missing is not None and self.missing[row]:
            return None
        if self.codes is None:
            return _plain(self.array[row])
        return _plain(self.array[self.codes[row]]) if self.codes[row] >= 0 else None

    def without_codes(self) -> Given:
        """Return the same rows, each with a value of its own."""
        if self.codes is None:
            return self
        absent = self.codes < 0
        if not len(self.array):
            return Given(np.full(len(self.codes), None, object), missing=absent)
        return Given(self.array[np.where(absent, 0, self.codes)], missing=absent)


def given_column(column: object, what: str) -> Given:
    """Read a column: a sequence, or whatever numpy, pandas, pyarrow or Arrow can read.

    ``what`` it is, is said in messages. Raises TypeError for a text, a dict, an iterator or a single value,
    and ValueError for more than one dimension.
    """
    pandas, pyarrow = loaded("pandas"), loaded("pyarrow")
    if pandas is not None and isinstance(
        column, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    ):
        return _from_pandas(column, pandas)
    if pyarrow is not None and isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        return _from_arrow(column, pyarrow)
    if isinstance(column, np.ndarray):
        return _from_numpy(column, what)
    if isinstance(column, Sequence) and not isinstance(column, (str, bytes, bytearray)):
        return Given(_from_sequence(column))
    column = collected(column)
    if hasattr(column, "__arrow_c_stream__"):
        pyarrow = required("pyarrow", f"reading {what}")
        return _from_arrow(_only_column(pyarrow.chunked_array(column), pyarrow, what), pyarrow)
    if hasattr(column, "__array__"):
        return _from_numpy(np.asarray(column), what)
    instead = "make a list of the iterator" if isinstance(column, Iterator) else f"not {short_repr(column)}"
    raise TypeError(f"{what} must be a column, such as a list, a numpy array or a pandas Series: {instead}")


def in_one_order(column: Any, what: str) -> Array:
    """Return a column as an array; raise ValueError for one of pandas whose index says that it was sorted.

    It would be read row by row, and rows that were sorted since are not those of the events.
    """
    pandas = loaded("pandas")
    if pandas is not None and isinstance(column, pandas.Series) and _is_shuffled(column.index, pandas):
        raise ValueError(
            f"{what} must be in the order of the events, and the index of this Series is in another: "
            "sort_index() restores it, or to_numpy() says that its rows are those of the events"
        )
    return np.asarray(column)


def _is_shuffled(index: Any, pandas: Any) -> bool:
    """Tell whether an index has the numbers of rows, in another order than theirs."""
    if isinstance(index, pandas.RangeIndex) and index.step > 0:
        return False
    return pandas.api.types.is_integer_dtype(index.dtype) and not index.is_monotonic_increasing


def collected(frame: Any) -> Any:
    """Return what has no rows yet, such as a lazy frame of polars, with its rows; others as they are."""
    is_lazy = hasattr(frame, "collect") and hasattr(frame, "collect_schema")
    return frame.collect() if is_lazy else frame


def _only_column(chunked: Any, pyarrow: Any, what: str) -> Any:
    """Return the column of a table that has but one; raise ValueError if it has several."""
    if not pyarrow.types.is_struct(chunked.type):
        return chunked
    names = [field.name for field in chunked.type]
    if len(names) != 1:
        raise ValueError(f"{what} must be one column, not a table of {', '.join(map(repr, names))}")
    return pyarrow.chunked_array([each.field(0) for each in chunked.chunks], chunked.type[0].type)


def is_missing(value: object) -> bool:
    """Tell whether an object stands for no value: None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    if type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, (float, np.floating, np.datetime64)) and bool(value != value)  # noqa: PLR0124


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value


def _from_sequence(column: Sequence[Any]) -> Array:
    kinds = set(map(type, column))
    try:
        if kinds == {int}:
            return np.array(column, np.int64)
    except OverflowError:
        pass
    if kinds == {float}:
        return np.array(column, np.float64)
    return np.fromiter(column, object, len(column))


def _from_numpy(array: Array, what: str) -> Given:
    if array.ndim != 1:
        raise ValueError(f"{what} must be a column of one dimension, not of the shape {array.shape}")
    missing = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.asarray(array)
    if plain.dtype.kind in "USV":
        return Given(plain.astype(object), missing=missing)
    return Given(plain.astype(plain.dtype.newbyteorder("="), copy=False), missing=missing)


def _from_pandas(column: Any, pandas: Any) -> Given:
    dtype = column.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        categorical = pandas.Categorical(column)
        return _of_categories(categorical.codes, given_column(categorical.categories, "categories"))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return Given(np.asarray(pandas.DatetimeIndex(column).tz_convert(None)))
    if isinstance(dtype, pandas.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
        pyarrow = required("pyarrow", "reading this column")
        return _from_arrow(pyarrow.array(column, from_pandas=True), pyarrow)
    if isinstance(dtype, pandas.api.extensions.ExtensionDtype) and hasattr(dtype, "numpy_dtype"):
        numbers = column.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        return Given(np.asarray(numbers), missing=np.asarray(column.isna()))
    return _from_numpy(np.asarray(column), "a column of pandas")


def _of_categories(codes: Any, categories: Given) -> Given:
    return Given(categories.without_codes().array, codes=np.asarray(codes, np.int64))


def _from_arrow(column: Any, pyarrow: Any) -> Given:
    chunked = column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.chunked_array([column])
    if other := _READ_AS.get(str(chunked.type).partition("(")[0]):
        chunked = chunked.cast(other)
    kind, types = chunked.type, pyarrow.types
    if types.is_dictionary(kind):
        return _from_arrow_dictionary(chunked, pyarrow)
    text_types = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    if any(is_text(kind) for is_text in text_types):
        return _from_arrow_dictionary(chunked.dictionary_encode(), pyarrow)
    if types.is_date(kind):
        chunked = chunked.cast(pyarrow.timestamp("s" if types.is_date32(kind) else "ms"))
        kind = chunked.type
    missing = chunked.is_null().to_numpy() if chunked.null_count else None
    if types.is_timestamp(kind):
        ticks = chunked.cast(pyarrow.int64()).fill_null(0).to_numpy()
        return Given(ticks.view(f"datetime64[{kind.unit}]"), missing=missing)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return Given(chunked.fill_null(pyarrow.scalar(0).cast(kind)).to_numpy(), missing=missing)
    return Given(_from_sequence(chunked.to_pylist()))


def _from_arrow_dictionary(chunked: Any, pyarrow: Any) -> Given:
    if not chunked.num_chunks:
        return Given(np.empty(0, object))
    chunks = chunked.unify_dictionaries().chunks
    codes = [each.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy() for each in chunks]
    return _of_categories(
        np.concatenate(codes), given_column(chunks[0].dictionary.to_pylist(), "a dictionary")
    )
