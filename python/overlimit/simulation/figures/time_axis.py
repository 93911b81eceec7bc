"""An axis of times on which round times of a zone are marked, however long or short it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import Formatter, Locator

from overlimit.limits.calendars import zone_named
from overlimit.simulation.figures.style import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints: TypeAlias = npt.NDArray[np.int64]

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US
_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
_STEPS_US: Final = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(seconds * _SECOND_US for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60 * _SECOND_US for minutes in _MINUTES),
)
_DAYS: Final = (2, 7, 14)
_MONTHS: Final = (1, 2, 3, 6, *(12 * years for years in (1, 2, 5, 10, 20, 50, 100)))
_LONGEST_MONTH: Final = 31
_PIXELS_OF_A_TIME: Final = 75
_WIDE: Final = 350
_FEWEST, _MOST = 2, 6
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNITS: Final = ("microsecond", "second", "minute", "hour", "day", "month", "year")
_MINUTE, _DAY, _MONTH, _YEAR = (_UNITS.index(unit) for unit in ("minute", "day", "month", "year"))
_COMMON: Final = ("", "%Y", "%Y-%b", "%Y-%b-%d")


def show_times(ax: Axes, zone_name: str) -> None:
    """Show the instants of an axis in a time zone."""
    zone = zone_named(zone_name)
    ax.xaxis.set_major_locator(_RoundTimes(zone))
    ax.xaxis.set_major_formatter(_ShortTimes(zone))
    # The date is on the right, and on narrow axes there is room for the city of a zone only.
    shown = zone_name if width_of(ax) >= _WIDE else zone_name.rpartition("/")[2]
    ax.set_xlabel(f"time ({shown})", loc="left")


class _RoundTimes(Locator):
    """Marks from two to six round times, as many as have room."""

    axis: Any

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def __call__(self) -> Any:
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Any:
        first, last = sorted((_micros(vmin), _micros(vmax)))
        finer = ticks = np.empty(0, np.int64)
        most = min(_MOST, max(_FEWEST, int(width_of(self.axis.axes) // _PIXELS_OF_A_TIME)))
        for walls in _round_walls(_wall(first, self._zone), _wall(last, self._zone), most):
            finer, ticks = ticks, _instants(walls, self._zone)
            ticks = ticks[(first <= ticks) & (ticks <= last)]
            if len(ticks) <= most:
                break
        if len(ticks) < _FEWEST:
            ticks = finer[:: math.ceil(len(finer) / most) or 1]
        return ticks / _DAY_US

    def nonsingular(self, v0: float, v1: float) -> tuple[float, float]:
        """Return a span that can be drawn: a second around a single instant."""
        if not (math.isfinite(v0) and math.isfinite(v1)):
            return 0.0, 1.0
        second = _SECOND_US / _DAY_US
        return (v0 - second / 2, v1 + second / 2) if v0 == v1 else (v0, v1)


class _ShortTimes(Formatter):
    """Writes times as short as they can be told apart, and once what all that is shown has in common."""

    axis: Any

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._common = ""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self._at(x).strftime("%Y-%m-%d %H:%M:%S")

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        first, last = (self._at(each) for each in sorted(self.axis.get_view_interval()))
        last = max(first, last - timedelta(microseconds=1))  # the end of a day belongs to it
        times = [self._at(value) for value in values]
        self._common, texts = _written(times, first, last)
        return texts

    def get_offset(self) -> str:
        return self._common

    def _at(self, value: float) -> datetime:
        return _EPOCH + timedelta(microseconds=_wall(_micros(value), self._zone))


def _written(times: list[datetime], first: datetime, last: datetime) -> tuple[str, list[str]]:
    """Return what all times between two others have in common, or where they begin, and each without that."""
    shared = max(k for k, form in enumerate(_COMMON) if first.strftime(form) == last.strftime(form))
    ranks = [_rank(time) for time in times]
    finest = min(ranks, default=_YEAR)
    texts = [time.strftime(_form(rank, finest, shared)) for time, rank in zip(times, ranks, strict=True)]
    if finest == 0:
        digits = max(len(f"{time.microsecond:06}".rstrip("0")) for time in times)
        texts = [text[: digits - 6] if "." in text and digits < 6 else text for text in texts]
    if times and shared < (needed := min(len(_COMMON) - 1, _YEAR - finest)):
        return f"from {times[0].strftime(_COMMON[needed])}", texts
    needs_minute = max(ranks, default=_YEAR) < _MINUTE
    return first.strftime(_COMMON[shared] + " %H:%M" * needs_minute), texts


def _rank(time: datetime) -> int:
    """Return the place of the finest unit that a time needs to be written."""
    needed = (unit for unit, name in enumerate(_UNITS) if getattr(time, name) > (name in {"day", "month"}))
    return next(needed)


def _form(rank: int, finest: int, shared: int) -> str:
    """Return how a time is written beside others, the finest of which needs some unit."""
    if finest == _YEAR or (rank == _YEAR and not shared):
        return "%Y"
    if finest == _MONTH:
        return "%b"
    if finest == _DAY:
        return "%b" if rank > _DAY and shared < 2 else "%d"
    if rank >= _DAY and shared < 3:
        return "%b-%d"
    return "%H:%M" if rank >= _MINUTE else "%S" if finest else "%S.%f"


def _round_walls(first: int, last: int, most: int) -> Iterator[Ints]:
    """Yield the round times of clocks between two others, from the finest of which there are few."""
    for step in _STEPS_US:
        if (last - first) // step <= 3 * most:
            yield np.arange(-(-first // step) * step, last + 1, step)
    days = np.arange(first // _DAY_US, last // _DAY_US + 1)
    of_month = (days.view("M8[D]") - days.view("M8[D]").astype("M8[M]")).astype(np.int64)
    for step in _DAYS:
        yield days[(of_month % step == 0) & (of_month <= _LONGEST_MONTH - step)] * _DAY_US
    months = np.unique(days.view("M8[D]").astype("M8[M]")).astype(np.int64)
    for step in _MONTHS:
        yield months[months % step == 0].view("M8[M]").astype("M8[us]").astype(np.int64)


def _micros(value: float) -> int:
    return round(value * _DAY_US)


def _wall(instant: int, zone: tzinfo) -> int:
    """Return what the clocks of a zone show at an instant, in us."""
    offset = (_EPOCH.replace(tzinfo=UTC) + instant * _MICROSECOND).astimezone(zone).utcoffset()
    return instant + (offset or timedelta()) // _MICROSECOND


def _instants(walls: Ints, zone: tzinfo) -> Ints:
    """Return when clocks first show times, each instant once: some times are skipped."""
    shown = [(_EPOCH + wall * _MICROSECOND).replace(tzinfo=zone) for wall in walls.tolist()]
    since = [time - _EPOCH.replace(tzinfo=UTC) for time in shown]
    return np.unique(np.array([each // _MICROSECOND for each in since], np.int64))
