"""The times in logs: as access logs write them, in ISO 8601, or as numbers."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

import numpy as np

from overlimit.clocks import END_US
from overlimit.simulation.events.given import Given
from overlimit.simulation.events.instants import Micros, converted, micros_of, unit_hint

NO_TIME = -1
"""Stands for the time of a row that has none."""

_NAMES_OF_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: k for k, name in enumerate(_NAMES_OF_MONTHS, 1)}
# Each gives the minute, the second, its fraction and the zone.
_COMMON = re.compile(r"\[?(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d):(\d\d)() ([+-]\d{4})\]?", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_REMEMBERED = 8192
_MOST_DIGITS = 20
_LENGTH_OF_DAY = len("2026-01-01")


def log_times(column: Given, unit: str | None) -> Micros:
    """Return a column of times in microseconds, `NO_TIME` where there is none or it cannot be read.

    Numbers, also in texts, count in ``unit``, by default in seconds. A time without a zone is UTC.
    """
    if column.array.dtype.kind != "O":
        micros, invalid = converted(column, unit)
        return np.where(invalid, NO_TIME, micros)
    counted = unit or "s"
    found = [_micros(value, counted) for value in column.array.tolist()]
    if column.codes is None:
        return np.array(found, np.int64)
    return np.array([*found, NO_TIME], np.int64)[column.codes]


def time_hint(value: object) -> str:
    """Say what may be wrong with a value that is no time."""
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return unit_hint(float(value) if is_number else value)  # type: ignore[arg-type]


def _micros(value: object, unit: str) -> int:
    if isinstance(value, str):
        return _micros_of_text(value, unit)
    try:
        micros = micros_of(value, unit)
    except TypeError:
        return NO_TIME
    return NO_TIME if micros is None else micros


@lru_cache(_REMEMBERED)
def _micros_of_text(text: str, unit: str) -> int:
    iso = f"{text} 00:00" if len(text) == _LENGTH_OF_DAY else text
    if found := _COMMON.fullmatch(text) or _ISO.fullmatch(iso):
        micros = _of_parts(*found.groups(default=""))
    elif _NUMBER.fullmatch(text):
        is_whole = "." not in text and len(text) <= _MOST_DIGITS
        micros = micros_of(int(text) if is_whole else float(text), unit)
    else:
        return NO_TIME
    return NO_TIME if micros is None else micros


def _of_parts(minute: str, second: str, fraction: str, zone: str) -> int | None:
    """Return an instant; a leap second is the first of the next minute."""
    start = _minute(minute, zone)
    seconds = int(second or 0)
    if start is None or seconds > 60:
        return None
    micros = start + seconds * 1_000_000
    if fraction:
        micros += (int(fraction.ljust(9, "0")) + 500) // 1000
    return micros if 0 <= micros < END_US else None


@lru_cache(_REMEMBERED)
def _minute(text: str, zone: str) -> int | None:
    """Return when a minute starts, in microseconds; None if there is no such minute."""
    form = "%d/%m/%Y:%H:%M" if text[2] == "/" else "%Y-%m-%d %H:%M"
    month = _MONTHS.get(text[3:6])
    try:
        local = datetime.strptime(f"{text[:3]}{month}{text[6:]}" if month else text.replace("T", " "), form)
        return (local.replace(tzinfo=_zone(zone)) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


def _zone(zone: str) -> timezone:
    if zone[:1] not in {"+", "-"}:
        return timezone.utc
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].removeprefix(":") or 0))
    return timezone(-offset if zone[0] == "-" else offset)
