"""The periods that a table or a figure counts in: so many seconds, or the days and hours of a time zone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.calendars import Calendar
from overlimit.limits.quantities import UNITS_US, Seconds, micros

Unit: TypeAlias = Literal["hour", "day", "week", "month"]
Every: TypeAlias = Seconds | Unit
"""How long a period is: a number of seconds, a timedelta, or a unit of the calendar."""

Ints: TypeAlias = npt.NDArray[np.int64]

_HOUR_US, _DAY_US = UNITS_US["hour"], UNITS_US["day"]
_FOREVER_US = 2**62
_MONDAY = 0


def period_bounds(times: Ints, every: Every, timezone: str) -> Ints:
    """Return where the periods begin in which times are, which never fall, and where the last of them ends.

    Units are those of the zone's calendar. Seconds that divide a day are counted from local midnight, and the
    last period of a day ends with it, however long it is; other seconds are counted from the epoch. Raises
    InvalidLimit if there is no such period or time zone.
    """
    width = checked_every(every)
    unit = every if isinstance(every, str) and every != "hour" else "day"
    calendar = Calendar(unit, timezone, _MONDAY)
    if not len(times):
        return np.empty(0, np.int64)
    first, last = int(times[0]), int(times[-1])
    stretches: Iterable[tuple[int, int]] = [(0, _FOREVER_US)]
    if every == "hour":
        stretches = _with_whole_hours(calendar, first, last)
    elif width == _FOREVER_US or _DAY_US % width == 0:
        stretches = _of_calendar(calendar, first, last)
    bounds: list[Ints] = []
    end = 0
    for start, end in stretches:
        begun = start + max(0, first - start) // width * width
        bounds.append(np.arange(begun, min(end, last + 1), width))
    return np.append(np.concatenate(bounds), min(end, int(bounds[-1][-1]) + width))


def checked_every(every: object) -> int:
    """Return after how many us a period ends, if the calendar's does not before; raise InvalidLimit."""
    if not isinstance(every, str):
        return micros(every, "every")
    if every in get_args(Unit):
        return _HOUR_US if every == "hour" else _FOREVER_US
    words = ", ".join(map(repr, get_args(Unit)))
    raise InvalidLimit(f"every must be a duration, in seconds or one of {words}, not {short_repr(every)}")


def _with_whole_hours(days: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield days of which every hour is whole; of others, on which clocks change by less, the hours."""
    hours = Calendar("hour", days.timezone, _MONDAY)
    for start, end in _of_calendar(days, first, last):
        if (end - start) % _HOUR_US == 0:
            yield start, end
        else:
            yield from _of_calendar(hours, max(start, first), min(end - 1, last))


def _of_calendar(calendar: Calendar, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield where the calendar's periods begin and end, from that of one instant to that of another."""
    following = first
    while following <= last:
        start, end, following = calendar.periods(following)
        yield start, end
        if end <= last:
            yield end, following
