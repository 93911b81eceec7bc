"""The distinct values of a column of identifiers, found once.

Which values are the same identifier is what ``Limiter.hit`` says: a text and its UTF-8 bytes are, and a whole
number is its text. None, NaN, NA and the empty text mean that there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.column import Codes
from overlimit.simulation.events.given import Array, Given, is_missing

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
    """Return an identifier as it is shown; None if the value stands for none.

    Raises TypeError for what cannot be an identifier: a fraction, a bool, a list.
    """
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
