"""What events cost: whole numbers from 0, as ``Limiter.hit`` takes them."""

from __future__ import annotations

import operator
from numbers import Integral

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.given import Array, given_column, is_missing

Costs = npt.NDArray[np.int64]

MOST = 2**53
"""No limit grants as much, so all costs from here on get the same answer."""


def costs_of(cost: object, count: int) -> Costs:
    """Return what each event costs, at most `MOST`; raise ValueError or TypeError that names the row."""
    if isinstance(cost, (Integral, np.integer, float, bool, np.bool_, str)) or cost is None:
        return np.broadcast_to(np.int64(_checked(cost)), count)
    given = given_column(cost, "cost").without_codes()
    if len(given) != count:
        raise ValueError(f"cost has {len(given)} rows, and times has {count}: give each event one")
    if given.missing is not None and given.missing.any():
        raise ValueError(f"cost: row {given.missing.argmax()} is missing")
    if given.array.dtype.kind in "iu":
        return _from_integers(given.array)
    return np.fromiter(map(_checked, given.array.tolist(), range(count)), np.int64, count)


def _from_integers(costs: Array) -> Costs:
    negative = costs < 0
    if negative.any():
        _checked(int(costs[negative.argmax()]), int(negative.argmax()))
    return np.minimum(costs, MOST).astype(np.int64) if costs.dtype.itemsize == 8 else costs.astype(np.int64)


def _checked(cost: object, row: int | None = None) -> int:
    where = "cost" if row is None else f"cost: row {row}"
    if is_missing(cost):
        raise ValueError(f"{where} is missing: it must be a whole number from 0")
    if isinstance(cost, (bool, np.bool_)) or not hasattr(cost, "__index__"):
        raise TypeError(f"{where} must be a whole number from 0, not {short_repr(cost)}")
    whole = operator.index(cost)
    if whole < 0:
        raise ValueError(f"{where} must be a whole number from 0, not {short_repr(cost)}")
    return min(whole, MOST)
