"""Windows one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .algorithm import Algorithm, is_saturated, saturating
from .natural_periods import Calendar


@dataclass(frozen=True)
class Window:
    start: int
    end: int
    count: int


class FixedWindow(Algorithm):
    def __init__(self, most: int, period: int, start: int, calendar: Calendar | None = None) -> None:
        self.most, self.period, self.start, self.calendar = most, period, start, calendar

    @classmethod
    def of(cls, limit: Any) -> FixedWindow:
        if limit._numbers[2] != 2:
            return cls(*limit._numbers)
        return cls(*limit._numbers, Calendar(limit.per, limit.timezone, limit.week_start))

    @property
    def identity(self) -> tuple[object, ...]:
        return ("fixed_window", self.start, self.period, self.calendar)

    def time_of(self, state: Window) -> int:
        return state.start

    def at(self, state: Window, now: int) -> Window | None:
        return state if now < state.end else None

    def used(self, state: Window, now: int) -> int:
        return state.count

    def retry(self, state: Window, now: int, cost: int) -> int:
        return state.end - now

    def reset(self, state: Window, now: int) -> int:
        return state.end - now

    def charged(self, state: Window | None, now: int, cost: int) -> Window:
        if state is None:
            return Window(*self._bounds(now), saturating(cost))
        return replace(state, count=saturating(state.count + cost))

    def refunded(self, state: Window, now: int, after: Window, cost: int) -> Window:
        if state.start != after.start or is_saturated(state.count):
            return state
        return replace(state, count=max(0, state.count - cost))

    def merged(self, own: Window | None, told: Window, now: int) -> Window | None:
        """The one that opened first, with the larger count."""
        if now >= told.end:
            return None
        if own is None or now >= own.end:
            return told
        first = min(own, told, key=lambda each: (each.start, -each.end))
        return replace(first, count=max(own.count, told.count))

    def _bounds(self, now: int) -> tuple[int, int]:
        if self.calendar is not None:
            return self.calendar.period_of(now)
        start = now // self.period * self.period if self.start == 1 else now
        return start, start + self.period
