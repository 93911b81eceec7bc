"""Instants in whole microseconds since the Unix epoch, from whatever a column of times holds.

The rules are those of a limiter's clock: floats are rounded to the nearest microsecond, naive times are UTC,
and an instant lies from 1970-01-01 to below 2**53 - 2**50 us, in the year 2219.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.clocks import END_US
from overlimit.simulation.events.given import Array, Given, given_column, is_missing

Micros = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_PER = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_FINER_THAN_MICROS = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_FINER_THAN_SECONDS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_LIKELY = (946_684_800, 4_102_444_800)  # the years 2000 and 2100, in seconds
_LARGEST_FLOAT = {"s": 9e9, "ms": 9e12, "us": 9e15, "ns": 9e18}


class Instants(NamedTuple):
    """Microseconds since the epoch, and which rows are none: missing, or outside the range."""

    micros: Micros
    invalid: npt.NDArray[np.bool_]


def instants_of(times: object, unit: str | None = None) -> Micros:
    """Return times in us, numbers by ``unit`` (seconds); raise ValueError or TypeError that names the row."""
    given = given_column(times, "times")
    micros, invalid = converted(given, unit)
    if invalid.any():
        row = int(invalid.argmax())
        value = given.at(row)
        what = "is missing" if is_missing(value) else f"is {short_repr(value)}"
        hint = unit_hint(value).removeprefix("; ")
        raise ValueError(
            f"{hint + ';' if hint else 'times:'} row {row} {what}, and must be an instant from 1970-01-01 to "
            "below 2**53 - 2**50 us after it, which is in the year 2219"
        )
    return micros


def unit_hint(value: object) -> str:
    """Say which unit would make an instant of today of a number that is too large for the one it has."""
    if not isinstance(value, (int, float, np.number)) or not 0 < value < 1e19:
        return ""
    for name, word in _FINER_THAN_SECONDS.items():
        if _is_likely(float(value) * _NANOS_PER[name] / 1e9):
            return f"; times look like {word}: unit={name!r}"
    return ""


def coarser_unit(times: Micros, unit: str) -> str | None:
    """Return the coarser unit in which numbers that were read in one are instants of today."""
    for name, nanos in _NANOS_PER.items():
        ratio = nanos // _NANOS_PER[unit]
        if ratio > 1 and len(times) and all(_is_likely(int(each) / 1e6 * ratio) for each in times[[0, -1]]):
            return name
    return None


def _is_likely(seconds: float) -> bool:
    return _LIKELY[0] <= seconds < _LIKELY[1]


def span_of(times: Micros, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """Return the first and the last of times, to the second, in a time zone."""
    first, last = (_EPOCH + timedelta(seconds=int(time) // 1_000_000) for time in (times.min(), times.max()))
    return first.astimezone(zone), last.astimezone(zone)


def instant_of(time: object, zone: tzinfo = UTC) -> int:
    """Return an instant in us: seconds, a datetime, a ``datetime64`` or ISO 8601; raise as `instants_of`.

    Times without an offset are of ``zone``.
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(
                f"a time must be in ISO 8601, as 2026-03-02T12:00, not {short_repr(time)}"
            ) from None
    if isinstance(time, np.datetime64) and zone is not UTC and not np.isnat(time):
        time = time.astype("datetime64[us]").item()
    if isinstance(time, datetime) and time.tzinfo is None and zone is not UTC:
        time = time.replace(tzinfo=zone)
    micros = micros_of(time, "s")
    if micros is None:
        raise ValueError(f"an instant must be from 1970-01-01 to the year 2219, not {short_repr(time)}")
    return micros


def converted(given: Given, unit: str | None) -> Instants:
    """Return the instants of a column and the rows that hold none; raise TypeError for what is no time."""
    checked = checked_unit(unit)
    given = given.without_codes()
    kind = given.array.dtype.kind
    if kind in "iu":
        micros, invalid = _from_integers(given.array, checked)
    elif kind == "f":
        micros, invalid = _from_floats(given.array.astype(np.float64, copy=False), checked)
    elif kind == "M":
        if unit is not None:
            raise TypeError(f"unit={unit!r} is for numbers, and these times are datetimes: leave it out")
        micros, invalid = _from_datetimes(given.array)
    elif kind == "O":
        micros, invalid = _from_objects(given.array, checked)
    else:
        raise TypeError(f"times must be seconds or datetimes, not {given.array.dtype}")
    if given.missing is not None:
        invalid = invalid | given.missing
    return Instants(micros, invalid)


def micros_of(value: object, unit: str) -> int | None:
    """Return a number or datetime in us, None if missing or out of range; raise TypeError for others."""
    if is_missing(value):
        return None
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, datetime):
        micros = _from_datetime(value)
    elif isinstance(value, np.datetime64):
        instants = _from_datetimes(np.array([value]))
        micros = -1 if instants.invalid[0] else int(instants.micros[0])
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        micros = _from_number(value, unit)
    else:
        hint = ": pandas.to_datetime(column) reads texts" if isinstance(value, str) else ""
        raise TypeError(f"a time must be a number of seconds or a datetime, not {short_repr(value)}{hint}")
    return micros if 0 <= micros < END_US else None


def checked_unit(unit: str | None) -> str:
    """Return what numbers count in, by default seconds; raise ValueError if there is no such unit."""
    if unit is not None and unit not in _NANOS_PER:
        raise ValueError(f"unit must be 's', 'ms', 'us' or 'ns', not {short_repr(unit)}")
    return unit or "s"


def _from_number(value: float, unit: str) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        return -1
    whole = math.floor(value)
    nanos = whole * _NANOS_PER[unit]
    if unit == "ns":
        return (nanos + 500) // 1000
    fraction = Fraction((value - whole) * (_NANOS_PER[unit] / 1000))
    return nanos // 1000 + math.floor(fraction + Fraction(1, 2))


def _from_datetime(value: datetime) -> int:
    aware = value if value.utcoffset() is not None else value.replace(tzinfo=UTC)
    since = aware - _EPOCH
    nanosecond = getattr(value, "nanosecond", 0)
    micros = timedelta(since.days, since.seconds, since.microseconds) // timedelta(microseconds=1)
    return micros + (nanosecond >= 500)


def _from_integers(values: Array, unit: str) -> Instants:
    beyond = values > np.iinfo(np.int64).max if values.dtype == np.uint64 else np.zeros(len(values), bool)
    numbers = values.astype(np.int64)
    if unit == "ns":
        micros = _halves_up(numbers, 1000)
    else:
        per_unit = _NANOS_PER[unit] // 1000
        beyond = beyond | (numbers > END_US // per_unit)
        micros = np.where(beyond | (numbers < 0), -1, numbers) * per_unit
    return Instants(micros, beyond | (micros < 0) | (micros >= END_US))


def _from_floats(values: npt.NDArray[np.float64], unit: str) -> Instants:
    # The whole units and the fraction are exact; only the fraction is rounded, as a limiter's clock does.
    finite = np.abs(values) < _LARGEST_FLOAT[unit]
    values = np.where(finite, values, -1.0)
    whole = np.floor(values)
    if unit == "ns":
        micros = _halves_up(whole.astype(np.int64), 1000)
    else:
        per_unit = _NANOS_PER[unit] // 1000
        fraction = (values - whole) * per_unit
        rounded = np.floor(fraction)
        rounded += fraction - rounded >= 0.5
        micros = whole.astype(np.int64) * per_unit + rounded.astype(np.int64)
    return Instants(micros, ~finite | (micros < 0) | (micros >= END_US))


def _from_datetimes(values: Array) -> Instants:
    unit, _ = np.datetime_data(values.dtype)
    absent = np.isnat(values)
    if unit in _FINER_THAN_MICROS:
        ticks = values.astype(f"datetime64[{unit}]").astype(np.int64)
        micros = _halves_up(np.where(absent, 0, ticks), _FINER_THAN_MICROS[unit])
        return Instants(micros, absent | (micros < 0) | (micros >= END_US))
    # Compared in the unit that was given: what is beyond the range could overflow in microseconds.
    start, end = np.datetime64(0, "us"), np.datetime64(END_US, "us")
    outside = (values < start.astype(values.dtype)) | (values > end.astype(values.dtype))
    inside = np.where(absent | outside, start.astype(values.dtype), values)
    micros = inside.astype("datetime64[us]").astype(np.int64)
    return Instants(micros, absent | outside | (micros >= END_US))


def _from_objects(values: Array, unit: str) -> Instants:
    micros = np.full(len(values), -1, np.int64)
    for row, value in enumerate(values.tolist()):
        try:
            found = micros_of(value, unit)
        except TypeError as error:
            raise TypeError(f"times: row {row}: {error}") from None
        micros[row] = -1 if found is None else found
    return Instants(micros, micros < 0)


def _halves_up(values: npt.NDArray[np.int64], divisor: int) -> Micros:
    """Divide, rounding to the nearest."""
    whole, rest = np.divmod(values, divisor)
    return whole + (rest * 2 >= divisor)
