"""A quota per period, with an answer that tells when it is just used up."""

from __future__ import annotations

import enum
from typing import ClassVar

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.texts import short_repr
from overlimit.clocks import ClockLike
from overlimit.errors import InvalidLimit
from overlimit.limiter import Limiter
from overlimit.limits import FixedWindow
from overlimit.limits.calendars import CalendarUnit
from overlimit.limits.quantities import UNITS_US, Seconds, count, micros
from overlimit.stores import Store

_UTC = "UTC"
_ALIGNED: tuple[CalendarUnit, ...] = ("second", "minute", "hour", "day", "week")
_CALENDAR_UNITS = {UNITS_US[unit]: unit for unit in _ALIGNED}


class PeriodState(enum.IntEnum):
    """What ``PeriodLimit.take`` answers; ``ALLOWED`` and ``HIT_QUOTA`` have passed."""

    UNKNOWN = 0
    """No store has decided. ``take`` does not answer so: a store that cannot answer raises StoreError."""
    ALLOWED = 1
    """Passed, and more may follow."""
    HIT_QUOTA = 2
    """Passed as the last one of its period; not said of the only one, where the quota is 1."""
    OVER_QUOTA = 3
    """Refused: the quota of the period is used up."""


class PeriodLimit(Initialised):
    """At most ``quota`` per period, one period after the other.

    Parameters
    ----------
    period
        The length of a period in seconds.
    quota
        The most that one period lets pass; 0 refuses everything.
    align
        False: a key's period starts with its first call that passes. True: periods are the seconds, minutes,
        hours, days or weeks (from Monday on) of a calendar, for a ``period`` of 1, 60, 3600, 86400 or 604800
        seconds. A day lasts from midnight to midnight, 23 or 25 hours when clocks change.
    timezone
        The IANA name of the calendar's time zone; only with ``align``.
    store, clock, name
        As for ``Limiter``.

    Notes
    -----
    Raises InvalidLimit (a ValueError) for wrong arguments. Thread-safe.

    Source: periodlimit of go-zero, with its ``Align``.
    """

    _set_last: ClassVar[str] = "_limiter"

    @checks_arguments()
    def __init__(
        self,
        period: Seconds,
        quota: int,
        align: bool = False,
        timezone: str = _UTC,
        *,
        store: str | Store = "memory://",
        clock: ClockLike | None = None,
        name: str | None = None,
    ) -> None:
        window = _window(period, count(quota, "quota"), align, timezone)
        self._limiter = Limiter(window, name=name, store=store, clock=clock)

    def take(self, key: str | bytes) -> PeriodState:
        """Take one of the key's quota for its present period, and tell how it stands then.

        Raises ValueError or TypeError for a wrong key, StoreError when the store cannot answer.
        """
        decision = self._limiter.hit(key)
        if not decision:
            return PeriodState.OVER_QUOTA
        is_last = decision.remaining == 0 and self._limiter.limits[0].quota > 1
        return PeriodState.HIT_QUOTA if is_last else PeriodState.ALLOWED

    def __repr__(self) -> str:
        return f"<PeriodLimit {self._limiter.limits[0]!r}, name={self._limiter.name!r}>"


def _window(period: Seconds, quota: int, align: bool, timezone: str) -> FixedWindow:
    if not isinstance(align, bool):
        raise InvalidLimit(f"align must be True or False, not {short_repr(align)}")
    period_us = micros(period, "period")
    if not align and timezone != _UTC:
        raise InvalidLimit(f"timezone is for align=True only: leave out timezone={short_repr(timezone)}")
    if not align:
        return FixedWindow(quota, period)
    if period_us not in _CALENDAR_UNITS:
        raise InvalidLimit(
            f"period must be 1, 60, 3600, 86400 or 604800 seconds with align=True, not {short_repr(period)}"
        )
    return FixedWindow(quota, _CALENDAR_UNITS[period_us], start="calendar", timezone=timezone)
