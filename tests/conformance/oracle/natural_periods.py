"""The seconds, minutes, hours, days, weeks and months of the clocks on the wall of a place."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND_US = 1_000_000
SHORT_US = {"second": SECOND_US, "minute": 60 * SECOND_US, "hour": 3_600 * SECOND_US}


@dataclass(frozen=True)
class Calendar:
    unit: str
    timezone: str = "UTC"
    week_start: int = 0

    def period_of(self, now: int) -> tuple[int, int]:
        """Start and end of the natural period that contains ``now``."""
        if self.unit in SHORT_US:
            return self._short_period_of(now, SHORT_US[self.unit])
        first = self._first_day(wall_clock(now, self.timezone).date())
        following = self._following(first)
        while first_instant_of(following, self.timezone) <= now:
            first, following = following, self._following(following)
        return first_instant_of(first, self.timezone), first_instant_of(following, self.timezone)

    def _short_period_of(self, now: int, length: int) -> tuple[int, int]:
        """With the offset in force at ``now``, and no further than that is in force."""
        offset = wall_clock(now, self.timezone).utcoffset()
        assert offset is not None
        shift = offset // MICROSECOND
        start = (now + shift) // length * length - shift
        before, after = range(start, now + 1), range(now, start + length)

        def has_offset(at: int) -> bool:
            return wall_clock(at, self.timezone).utcoffset() == offset

        in_force_from = before[bisect_left(before, True, key=has_offset)]
        in_force_for = bisect_left(after, True, key=lambda at: not has_offset(at))
        return in_force_from, now + in_force_for

    def _first_day(self, day: date) -> date:
        if self.unit == "week":
            return day - timedelta(days=(day.weekday() - self.week_start) % 7)
        return day.replace(day=1) if self.unit == "month" else day

    def _following(self, first: date) -> date:
        if self.unit == "month":
            return (first + timedelta(days=31)).replace(day=1)
        return first + timedelta(days=7 if self.unit == "week" else 1)


def wall_clock(instant: int, zone: str) -> datetime:
    return (EPOCH + instant * MICROSECOND).astimezone(ZoneInfo(zone))


@cache
def first_instant_of(day: date, zone: str) -> int:
    """The first instant at which the wall clock shows ``day`` or later: its midnight, or the first of two."""
    midnight = datetime.combine(day, time(), ZoneInfo(zone))
    earlier, later = sorted((midnight.replace(fold=fold) - EPOCH) // MICROSECOND for fold in (0, 1))
    if wall_clock(earlier, zone).date() >= day:
        return earlier
    # Midnight is skipped, somewhere between what it would be by the offset after and by the offset before.
    skipping = range(earlier, later + 1)
    return skipping[bisect_left(skipping, True, key=lambda at: wall_clock(at, zone).date() >= day)]
