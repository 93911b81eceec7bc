"""The identifiers of events: a column of them, or several by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlimit._core import MAX_IDENTIFIERS
from overlimit._messages.texts import short_repr
from overlimit.simulation.events.column import Column, concatenated
from overlimit.simulation.events.factorization import REFUSED, factorized, label_of
from overlimit.simulation.events.given import given_column
from overlimit.simulation.optional import loaded

_OTHER_COLUMNS = {"time", "cost", "label"}


def identifier_columns(identifiers: object, count: int) -> tuple[Column, ...]:
    """Return the columns of identifiers of ``count`` events, each identifier held once.

    Raises ValueError for another length, a name that cannot be or comes twice, and no columns at all, and
    TypeError for what is no column or no identifier; the message names its row.
    """
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


def label_column(labels: object, count: int) -> Column:
    """Return what each of ``count`` events was labelled; raise as `identifier_columns` does."""
    return _column(None, labels, count, "labels")


def rows_to_keep(columns: Sequence[Column], missing: str) -> npt.NDArray[np.int64] | None:
    """Return the rows that have an identifier; None: all of them.

    Raises ValueError for a row that has none if ``missing`` is ``"raise"``, and for more than one call takes.
    """
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
    pandas, pyarrow = loaded("pandas"), loaded("pyarrow")
    if pandas is not None and isinstance(identifiers, pandas.DataFrame):
        return [(name, identifiers.iloc[:, k]) for k, name in enumerate(identifiers.columns)]
    if pyarrow is not None and isinstance(identifiers, (pyarrow.Table, pyarrow.RecordBatch)):
        return list(zip(identifiers.schema.names, identifiers.columns, strict=True))
    return None


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
