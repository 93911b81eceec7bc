"""The identifiers of events: a column of them, or several by name, each distinct one held once.

Which values are the same identifier is what ``Limiter.hit`` says: a text and its UTF-8 bytes are, and a whole
number is its text. None, NaN, NA and the empty text mean that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._core import MAX_IDENTIFIERS
from overlimit._messages.texts import short_repr
from overlimit.simulation.events.given import Array, Given, collected, given_column, is_missing
from overlimit.simulation.optional import loaded, required

if TYPE_CHECKING:
    import pandas as pd

Codes = npt.NDArray[np.int32]


class Column(NamedTuple):
    """A column of identifiers, each held once.

    ``codes`` has the number of each event's identifier in ``labels``, or -1. Labels are as
    ``Decision.identifier`` shows them, such as ``"ip:203.0.113.7"``: texts, or bytes where they are no UTF-8.
    In a part of some events there may be labels that none of them has.
    """

    name: str | None
    codes: Codes
    labels: npt.NDArray[np.object_]

    @property
    def title(self) -> str:
        """What the column is called in tables."""
        return self.name or "identifier"

    def take(self, which: slice | npt.NDArray[Any]) -> Column:
        """Return the column of some of the events."""
        return self._replace(codes=self.codes[which])

    def values(self) -> npt.NDArray[np.object_]:
        """Return the label of each event; None where it has none."""
        return np.append(self.labels, [None])[self.codes]

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how many events have each label."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels))

    def compact(self) -> Column:
        """Return the column without labels that no event has."""
        present = np.flatnonzero(self.counts())
        numbers = np.full(len(self.labels) + 1, -1, np.int32)
        numbers[present] = np.arange(len(present), dtype=np.int32)
        return self._replace(codes=numbers[self.codes], labels=self.labels[present])


def concatenated(columns: Sequence[Column]) -> Column:
    """Return columns of one name as one, one after the other; equal labels become the same."""
    numbers: dict[object, int] = {}
    parts = []
    for column in columns:
        renumbered = [numbers.setdefault(label, len(numbers)) for label in column.labels.tolist()]
        parts.append(np.array([*renumbered, -1], np.int32)[column.codes])
    labels = np.fromiter(numbers, object, len(numbers))
    return Column(columns[0].name, np.concatenate(parts), labels)


def label_index(labels: npt.NDArray[Any], name: str | None = None) -> pd.Index[Any]:
    """Return labels as an index: of objects if UTF-8 cannot write one of them, which pandas would refuse."""
    pandas = required("pandas", "a table of labels")
    try:
        index: pd.Index[Any] = pandas.Index(labels, name=name)
    except UnicodeEncodeError:
        index = pandas.Index(labels, name=name, dtype=object)
    return index


MISSING = -1
"""The code of a row that has no identifier."""
REFUSED = -2
"""The code of a row whose value cannot be one: `label_of` says why."""

_EXACT = 2**53
_SMALL_RANGE = 4


class Factorized(NamedTuple):
    """Of each row the number of its label, `MISSING` or `REFUSED`; and the distinct labels."""

    codes: Codes
    labels: list[str | bytes]


def factorized(given: Given) -> Factorized:
    """Return the distinct identifiers of a column, and which of them each row has."""
    if given.codes is not None:
        return _of_codes(given.array, given.codes)
    kind = given.array.dtype.kind
    if kind in "iu":
        found = _of_integers(given.array)
    elif kind == "f":
        found = _of_floats(given.array)
    elif kind == "O":
        found = _of_objects(given.array)
    else:
        found = Factorized(np.full(len(given.array), REFUSED, np.int32), [])
    if given.missing is not None:
        found.codes[given.missing] = MISSING
    return found


def label_of(value: object) -> str | bytes | None:
    """Return an identifier as shown, None if there is none; raise TypeError for a fraction, bool or list."""
    if isinstance(value, str):
        return str(value) or None
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        return _decoded(bytes(value)) or None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return _label_of_float(float(value))
    raise TypeError(f"an identifier must be a text, bytes or a whole number, not {short_repr(value)}")


def _label_of_float(value: float) -> str:
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    why = "a whole number" if not value.is_integer() else "below 2**53, past which floats lose digits"
    raise TypeError(f"an identifier that is a float must be {why}, not {value!r}")


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value


def encoded(label: str | bytes) -> bytes:
    """Return an identifier or a label as bytes."""
    return label if isinstance(label, bytes) else label.encode("utf-8", "surrogatepass")


def _of_codes(values: Array, codes: npt.NDArray[np.int64]) -> Factorized:
    """Look only at the values that occur."""
    seen = np.zeros(len(values) + 1, bool)
    seen[codes] = True
    occurring = np.flatnonzero(seen[:-1])
    found = factorized(Given(values[occurring]))
    lookup = np.full(len(values) + 1, MISSING, np.int32)
    lookup[occurring] = found.codes
    return Factorized(lookup[codes], found.labels)


def _of_integers(values: Array) -> Factorized:
    if not len(values):
        return Factorized(np.empty(0, np.int32), [])
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest <= _SMALL_RANGE * len(values):
        return _of_small_range(values, lowest, highest)
    distinct, codes = np.unique(values, return_inverse=True)
    return Factorized(codes.astype(np.int32), list(map(str, distinct.tolist())))


def _of_small_range(values: Array, lowest: int, highest: int) -> Factorized:
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    offsets = (values.astype(wide) - wide(lowest)).astype(np.int64)
    seen = np.zeros(highest - lowest + 1, bool)
    seen[offsets] = True
    lookup = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return Factorized(lookup[offsets], [str(lowest + k) for k in np.flatnonzero(seen).tolist()])


def _of_floats(values: Array) -> Factorized:
    absent = np.isnan(values)
    with np.errstate(invalid="ignore"):
        whole = ~absent & (np.floor(values) == values) & (np.abs(values) < _EXACT)
    found = _of_integers(values[whole].astype(np.int64))
    codes = np.where(absent, np.int32(MISSING), np.int32(REFUSED))
    codes[whole] = found.codes
    return Factorized(codes, found.labels)


def _of_objects(values: Array) -> Factorized:
    rows = values.tolist()
    refused = {kind for kind in set(map(type, rows)) if not _is_allowed(kind)}
    if refused:  # also because True == 1, so that a dict would hold only one of them
        rows = [_Refused if type(row) in refused else row for row in rows]
    lookup: dict[object, int] = dict.fromkeys(rows, MISSING)
    numbers: dict[str | bytes, int] = {}
    for value in lookup:
        lookup[value] = _number(value, numbers)
    return Factorized(np.fromiter(map(lookup.__getitem__, rows), np.int32, len(rows)), list(numbers))


class _Refused:
    """Stands in a row for a value that cannot be an identifier."""


def _is_allowed(kind: type) -> bool:
    if issubclass(kind, (bool, np.bool_)):
        return False
    plain = (str, bytes, int, float, np.integer, np.floating, type(None))
    return issubclass(kind, plain) or kind.__name__ in {"NAType", "NaTType"}


def _number(value: object, numbers: dict[str | bytes, int]) -> int:
    try:
        label = label_of(value)
    except TypeError:
        return REFUSED
    return MISSING if label is None else numbers.setdefault(label, len(numbers))


_OTHER_COLUMNS = {"time", "cost", "label"}


def identifier_columns(identifiers: object, count: int) -> tuple[Column, ...]:
    """Return the columns, each identifier held once; raise ValueError or TypeError that names the row."""
    columns = _columns_by_name(identifiers)
    if columns is None:
        return (_column(None, identifiers, count, "identifiers"),)
    if not columns:
        raise ValueError("identifiers has no columns: give at least one, as {'ip': addresses}")
    names = [checked_name(name) for name, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"identifiers has two columns {name!r}: give each another name")
    return tuple(_column(name, values, count, f"identifiers[{name!r}]") for name, values in columns)


def checked_name(name: object) -> str:
    """Return the name of a column of identifiers, or raise ValueError or TypeError."""
    if not isinstance(name, str):
        raise TypeError(
            f"a column of identifiers has a text as its name, such as 'ip', not {short_repr(name)}"
        )
    if not name or ":" in name:
        raise ValueError(f"a column of identifiers has a name without ':', such as 'ip', not {name!r}")
    if name in _OTHER_COLUMNS:
        raise ValueError(
            f"a column of identifiers cannot be called {name!r}: that is another column of events"
        )
    return name


def checked_missing(missing: object) -> None:
    """Raise ValueError if that is nothing to do with events without an identifier."""
    if missing not in {"raise", "skip"}:
        raise ValueError(f"missing must be 'raise' or 'skip', not {short_repr(missing)}")


def label_column(labels: object, count: int, called: str = "labels") -> Column:
    """Return what each of ``count`` events was labelled; raise as `identifier_columns` does."""
    return _column(None, labels, count, called)


def rows_to_keep(columns: Sequence[Column], missing: str) -> npt.NDArray[np.int64] | None:
    """Return the rows with an identifier, None for all; raise ValueError for none if so told, or too many."""
    present = np.zeros(len(columns[0].codes), np.int64)
    for column in columns:
        present += column.codes >= 0
    if (present > MAX_IDENTIFIERS).any():
        row = int((present > MAX_IDENTIFIERS).argmax())
        raise ValueError(f"row {row} has {present[row]} identifiers, and one call takes {MAX_IDENTIFIERS}")
    if present.all():
        return None
    if missing == "raise":
        row = int((present == 0).argmax())
        raise ValueError(
            f"row {row} has no identifier: missing='skip' leaves such events out and counts them"
        )
    return np.flatnonzero(present)


def named(name: str | None, label: str | bytes) -> str | bytes:
    """Return an identifier as decisions show it: with the name of its column in front, if it is not yet."""
    prefix = "" if name is None else f"{name}:"
    if isinstance(label, bytes):
        return label if label.startswith(prefix.encode()) else prefix.encode() + label
    return label if label.startswith(prefix) else prefix + label


def _columns_by_name(identifiers: object) -> list[tuple[Any, Any]] | None:
    """Return the names and columns of a dict or table; None: it is a single column."""
    if isinstance(identifiers, Mapping):
        return list(identifiers.items())
    pandas = loaded("pandas")
    if pandas is not None and isinstance(identifiers, pandas.DataFrame):
        return [(name, identifiers.iloc[:, k]) for k, name in enumerate(identifiers.columns)]
    frame = collected(identifiers)
    is_arrow = hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")
    if not (is_arrow and hasattr(frame, "columns")):
        return None
    table = required("pyarrow", "reading identifiers").table(frame)
    return list(zip(table.schema.names, table.columns, strict=True))


def _column(name: str | None, values: object, count: int, what: str) -> Column:
    given = given_column(values, what)
    if len(given) != count:
        raise ValueError(f"{what} has {len(given)} rows, and times has {count}: give each event one")
    codes, labels = factorized(given)
    if (codes == REFUSED).any():
        row = int((codes == REFUSED).argmax())
        try:
            label_of(given.at(row))
        except TypeError as error:
            raise TypeError(f"{what}: row {row}: {error}") from None
        raise TypeError(f"{what}: row {row}: {short_repr(given.at(row))} cannot be an identifier")
    shown_labels = np.fromiter((named(name, label) for label in labels), object, len(labels))
    column = Column(name, codes, shown_labels)
    return column if len(set(shown_labels)) == len(labels) else concatenated([column])
