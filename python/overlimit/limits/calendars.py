"""Natural periods: the seconds, minutes, hours, days, weeks and months of a time zone.

They follow one another without a gap or an overlap: each instant is in exactly one, whatever the clocks do.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.quantities import UNITS_US, count

CalendarUnit: TypeAlias = Literal["second", "minute", "hour", "day", "week", "month"]
"""What a natural period may be."""

_LONGEST_US = {unit: us for unit, us in UNITS_US.items() if unit != "ms"} | {"month": 31 * UNITS_US["day"]}
_OF_A_DAY = ("second", "minute", "hour")
_WALL_EPOCH = datetime(1970, 1, 1)
_EPOCH = _WALL_EPOCH.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ZONE_NAME = re.compile(r"(?!posix|right/|localtime)(?=.{1,32}$)[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


@dataclass(frozen=True)
class Calendar:
    """The natural periods of one unit in one time zone, with weeks that begin on one day.

    Days, weeks and months begin when the zone's clocks first show midnight of their first day, or later:
    where clocks jump over midnight, at the jump; where they show it twice, at the first. So a day on which
    clocks change has another length than 24 hours, and a day that the zone skips does not exist. Seconds,
    minutes and hours divide the time of day by the UTC offset in force; when the offset changes by a part of
    the unit, one period ends and the next begins at the change.

    Sources: the IANA time zone database; PEP 495 for times that occur twice or never.
    """

    unit: CalendarUnit
    timezone: str
    week_start: int
    """The first day of a week, from 0 for Monday to 6 for Sunday; it matters to the unit ``"week"`` only."""
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the three; raise InvalidLimit naming ``per``, ``timezone`` or ``week_start``."""
        if not isinstance(self.unit, str) or self.unit not in _LONGEST_US:
            units = ", ".join(map(repr, _LONGEST_US))
            raise InvalidLimit(
                f"per must be one of {units} with start='calendar', not {short_repr(self.unit)}"
            )
        object.__setattr__(self, "week_start", count(self.week_start, "week_start", 6))
        object.__setattr__(self, "_zone", zone_named(self.timezone))

    @property
    def identity(self) -> str:
        """The text that tells this calendar from every other, the same in every process."""
        return f"{self.unit} {self.timezone} {self.week_start}"

    @property
    def longest_us(self) -> int:
        """The length in microseconds of the longest period without a change of clocks in it."""
        return _LONGEST_US[self.unit]

    def periods(self, now_us: int) -> tuple[int, int, int]:
        """Return start, end and end of the next of the period that contains an instant, all in us.

        The instant is from 0 to 2**53 (the year 2255): start <= now < end < end of the next. A start before
        the epoch is given as 0.
        """
        start, end = self._period(now_us)
        _, end_of_next = self._period(end)
        return max(0, start), end, end_of_next

    def _period(self, at: int) -> tuple[int, int]:
        return self._part_of_a_day(at) if self.unit in _OF_A_DAY else self._whole_days(at)

    def _part_of_a_day(self, at: int) -> tuple[int, int]:
        def phase(instant: int) -> int:
            return self._offset_us(instant) % self.longest_us

        def is_in_phase(instant: int) -> bool:
            return phase(instant) == phase(at)

        def is_out_of_phase(instant: int) -> bool:
            return phase(instant) != phase(at)

        start = at - (at + phase(at)) % self.longest_us
        end = start + self.longest_us
        return _first(start, at, is_in_phase), _first(at, end, is_out_of_phase)

    def _whole_days(self, at: int) -> tuple[int, int]:
        first = self._first_day(self._wall(at).date())
        following = self._following(first)
        # Clocks that went back over midnight show a day that has ended; a day that was skipped is empty.
        while (end := self._beginning(following)) <= at:
            first, following = following, self._following(following)
        return self._beginning(first), end

    def _first_day(self, day: date) -> date:
        if self.unit == "month":
            return day.replace(day=1)
        if self.unit == "week":
            return day - timedelta((day.weekday() - self.week_start) % 7)
        return day

    def _following(self, first: date) -> date:
        if self.unit == "month":
            return (first + timedelta(31)).replace(day=1)
        return first + timedelta(7 if self.unit == "week" else 1)

    def _beginning(self, day: date) -> int:
        """Return the first instant at which the zone's clocks show midnight of ``day`` or later."""
        midnight = datetime.combine(day, time())
        earlier, later = self._instant(midnight, fold=0), self._instant(midnight, fold=1)
        if earlier <= later:
            return earlier
        # Clocks jump over it. Seen with the offset after the jump it lies before the jump, and vice versa.
        return _first(later, earlier, lambda instant: self._wall(instant) >= midnight)

    def _offset_us(self, instant: int) -> int:
        return (self._wall(instant) - _WALL_EPOCH) // _MICROSECOND - instant

    def _wall(self, instant: int) -> datetime:
        """Return what the zone's clocks show at an instant, without a time zone."""
        aware = _EPOCH + timedelta(microseconds=instant)
        return aware.astimezone(self._zone).replace(tzinfo=None)

    def _instant(self, wall: datetime, fold: int) -> int:
        return (wall.replace(tzinfo=self._zone, fold=fold) - _EPOCH) // _MICROSECOND


def _first(start: int, end: int, condition: Callable[[int], bool]) -> int:
    """Return the first from ``start`` on that meets a condition, which then stays met, or else ``end``."""
    if start == end or condition(start):
        return start
    if not condition(end - 1):
        return end
    return start + bisect_left(range(start, end), True, key=condition)


def zone_named(name: object) -> tzinfo:
    """Return the zone, or raise InvalidLimit naming ``timezone``; UTC needs no time zone data."""
    if not isinstance(name, str) or not _ZONE_NAME.fullmatch(name):
        raise InvalidLimit(
            f"timezone must be a name of the IANA database such as 'Europe/Berlin', not {short_repr(name)}"
        )
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidLimit(
            f"timezone must be a name of the IANA database such as 'Europe/Berlin', not {short_repr(name)}, "
            "which the time zone data does not have"
        ) from None
