"""At most so many per window, windows one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from overlimit._core import Calendar as CoreCalendar
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.calendars import Calendar, CalendarUnit
from overlimit.limits.limit import LimitPerPeriod, set_arguments
from overlimit.limits.quantities import Seconds, count, micros

_STARTS = ("first", "epoch", "calendar")
_TIMEZONE = "UTC"
_MONDAY = 0


class FixedWindow(LimitPerPeriod):
    """At most ``limit`` in each window of ``per`` seconds, or in each hour, day and so on of a calendar.

    Cheap, and simple to explain; around a boundary between two windows up to twice the limit may pass.

    Sources: the INCR and EXPIRE counter of the Redis documentation, "Pattern: rate limiter"; natural periods
    as in FireflySoft.RateLimit, with the days of a time zone (see ``overlimit.limits.calendars``).

    Parameters
    ----------
    limit
        The most that one window admits, in cost units; 0 refuses everything.
    per
        The length of a window in seconds (int, float, Fraction, Decimal or timedelta), rounded to the
        nearest microsecond. With ``start="calendar"``: ``"second"``, ``"minute"``, ``"hour"``,
        ``"day"``, ``"week"`` or ``"month"``.
    start
        ``"first"``: a window opens with the first admitted call after the one before has ended.
        ``"epoch"``: windows are aligned to whole multiples of ``per`` since 1970-01-01 UTC.
        ``"calendar"``: windows are the natural periods of ``timezone``. A day ends at local midnight, so
        one on which clocks change lasts 23 or 25 hours; hours and shorter follow the UTC offset in force.
    timezone
        The IANA name of a time zone, such as ``"Europe/Berlin"``; only with ``start="calendar"``.
    week_start
        The day on which a week begins, from 0 for Monday to 6 for Sunday; only with
        ``start="calendar"``.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type, out of range or means nothing with this ``start``, or the time
        zone is unknown; the message names the argument.
    """

    __slots__ = ("_calendar",)

    algorithm: ClassVar[str] = "fixed_window"

    _calendar: Calendar | None

    @checks_arguments()
    def __init__(
        self,
        limit: int,
        per: Seconds | CalendarUnit,
        *,
        start: Literal["first", "epoch", "calendar"] = "first",
        timezone: str = _TIMEZONE,
        week_start: int = _MONDAY,
        name: str | None = None,
    ) -> None:
        if not isinstance(start, str) or start not in _STARTS:
            raise InvalidLimit(f"start must be 'first', 'epoch' or 'calendar', not {short_repr(start)}")
        most, calendar = count(limit, "limit"), _calendar_for(start, per, timezone, week_start)
        period_us = 0 if calendar else micros(per, "per")
        handle = CoreCalendar(calendar.identity, calendar.periods) if calendar else None
        object.__setattr__(self, "_calendar", calendar)
        self._seal((most, period_us, _STARTS.index(start)), name, handle)

    @property
    def per(self) -> float | CalendarUnit:  # type: ignore[override]  # only calendars have units
        """The length of a window in seconds; of a calendar's window, its unit such as ``"day"``."""
        return self._calendar.unit if self._calendar else super().per

    @property
    def start(self) -> str:
        """Where windows start: ``"first"``, ``"epoch"`` or ``"calendar"``."""
        return _STARTS[self._numbers[2]]

    @property
    def timezone(self) -> str:
        """The time zone of a calendar's windows."""
        return self._calendar.timezone if self._calendar else _TIMEZONE

    @property
    def week_start(self) -> int:
        """The day on which a calendar's weeks begin, from 0 for Monday to 6 for Sunday."""
        return self._calendar.week_start if self._calendar else _MONDAY

    @property
    def window(self) -> float:
        """Seconds from the start of a window to its end.

        A calendar's day counts as 24 hours and its month as 31 days; one in which clocks go back is longer.
        """
        return (self._calendar.longest_us if self._calendar else self._period_us) / 1e6

    def _description(self) -> str:
        if not self._calendar:
            return super()._description()
        zone = "" if self.timezone == _TIMEZONE else "-" + self.timezone.replace("/", ".").replace("+", "_")
        return f"{self.limit}-per-{self.per}{zone}"

    def _phrase(self) -> str:
        return f"{self.limit} per {self.per}" if self._calendar else super()._phrase()

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        defaults = {"start": "first", "timezone": _TIMEZONE, "week_start": _MONDAY}
        positional, by_name = super()._arguments()
        return positional, {**by_name, **set_arguments(self, defaults)}

    def _identity(self) -> tuple[object, ...]:
        return *super()._identity(), self._calendar


def _calendar_for(start: str, per: object, timezone: object, week_start: object) -> Calendar | None:
    """Return the calendar that windows follow, if any; without one, refuse what only calendars understand."""
    if start == "calendar":
        return Calendar(per, timezone, week_start)  # type: ignore[arg-type]  # checked by the constructor
    micros(per, "per")  # names the unit of a calendar before what else a calendar has
    for argument, value, default in (("timezone", timezone, _TIMEZONE), ("week_start", week_start, _MONDAY)):
        if value is not default and (value != default or isinstance(value, bool)):
            raise InvalidLimit(
                f"{argument} is for start='calendar' only: leave out {argument}={short_repr(value)}"
            )
    return None
