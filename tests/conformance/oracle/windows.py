"""Limits that count what windows, blocks or single instants have admitted."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from dataclasses import dataclass, replace

from .algorithm import Algorithm
from .natural_periods import Calendar


@dataclass(frozen=True)
class Window:
    start: int
    end: int
    count: int


class FixedWindow(Algorithm):
    def __init__(self, most: int, period: int, start: int, calendar: Calendar | None = None) -> None:
        self.most, self.period, self.start, self.calendar = most, period, start, calendar

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
            return Window(*self._bounds(now), cost)
        return replace(state, count=state.count + cost)

    def refunded(self, state: Window, now: int, after: Window, cost: int) -> Window:
        if state.start != after.start:
            return state
        return replace(state, count=max(0, state.count - cost))

    def _bounds(self, now: int) -> tuple[int, int]:
        if self.calendar is not None:
            return self.calendar.period_of(now)
        start = now // self.period * self.period if self.start == 1 else now
        return start, start + self.period


class Entries(Algorithm):
    """A state is what was admitted and when: place -> count. Only the newest place may have a count of 0."""

    @abstractmethod
    def place(self, now: int) -> int:
        """Where a charge is counted."""

    @abstractmethod
    def leaves(self, place: int) -> int:
        """The instant at which a place no longer counts."""

    def at(self, state: dict[int, int], now: int) -> dict[int, int] | None:
        return {place: count for place, count in state.items() if now < self.leaves(place)} or None

    def used(self, state: dict[int, int], now: int) -> int:
        return sum(state.values())

    def retry(self, state: dict[int, int], now: int, cost: int) -> int:
        instants = sorted(map(self.leaves, state))
        return next(at - now for at in instants if self.fits(self.at(state, at), at, cost))

    def charged(self, state: dict[int, int] | None, now: int, cost: int) -> dict[int, int]:
        counts = state or {}
        place = self.place(now)
        return without_empty({**counts, place: counts.get(place, 0) + cost})

    def refunded(self, state: dict[int, int], now: int, after: dict[int, int], cost: int) -> dict[int, int]:
        place = max(after)
        if place not in state or now >= self.leaves(place):
            return state
        return without_empty({**state, place: max(0, state[place] - cost)})


def without_empty(state: dict[int, int]) -> dict[int, int]:
    return {place: count for place, count in state.items() if count or place == max(state)}


class SlidingWindow(Entries):
    """Places are blocks of ``precision``, numbered from the epoch."""

    def __init__(self, most: int, period: int, precision: int) -> None:
        self.most, self.period, self.precision = most, period, precision

    @property
    def identity(self) -> tuple[object, ...]:
        return ("sliding_window", self.period, self.precision)

    def time_of(self, state: dict[int, int]) -> int:
        return max(state) * self.precision

    def reset(self, state: dict[int, int], now: int) -> int:
        return max((self.leaves(block) - now for block, count in state.items() if count), default=0)

    def place(self, now: int) -> int:
        return now // self.precision

    def leaves(self, place: int) -> int:
        return (place + self.period // self.precision + 1) * self.precision


class SlidingLog(Entries):
    """Places are instants."""

    def __init__(self, most: int, period: int) -> None:
        self.most, self.period = most, period

    @property
    def identity(self) -> tuple[object, ...]:
        return ("sliding_log", self.period)

    def time_of(self, state: dict[int, int]) -> int:
        return max(state)

    def reset(self, state: dict[int, int], now: int) -> int:
        return max(state) + self.period - now

    def place(self, now: int) -> int:
        return now

    def leaves(self, place: int) -> int:
        return place + self.period


@dataclass(frozen=True)
class Neighbours:
    """The current window, and the one right before it."""

    start: int
    previous: int
    current: int


class SlidingWindowCounter(Algorithm):
    def __init__(self, most: int, period: int) -> None:
        self.most, self.period = most, period

    @property
    def identity(self) -> tuple[object, ...]:
        return ("sliding_window_counter", self.period)

    def time_of(self, state: Neighbours) -> int:
        return state.start

    def at(self, state: Neighbours, now: int) -> Neighbours | None:
        if now < state.start + self.period:
            return state
        if now < state.start + 2 * self.period and state.current:
            return Neighbours(state.start + self.period, state.current, 0)
        return None

    def used(self, state: Neighbours, now: int) -> float:
        left = float(state.start + self.period - now)
        return (float(state.previous) * left) / float(self.period) + float(state.current)

    def remaining(self, state: Neighbours | None, now: int) -> int:
        return max(0, math.floor(float(self.most) - self._used(state, now)))

    def retry(self, state: Neighbours, now: int, cost: int) -> int:
        """Within a window the weight only falls, so its first instant that fits is found by bisection."""
        first = now + 1
        for end in (state.start + self.period, state.start + 2 * self.period):
            instants = range(first, end)
            found = bisect_left(instants, True, key=lambda at: self.fits(self.at(state, at), at, cost))
            if found < len(instants):
                return instants[found] - now
            first = end
        return first - now

    def reset(self, state: Neighbours, now: int) -> int:
        if state.current:
            return state.start + 2 * self.period - now
        return state.start + self.period - now if state.previous else 0

    def charged(self, state: Neighbours | None, now: int, cost: int) -> Neighbours:
        if state is None:
            return Neighbours(now // self.period * self.period, 0, cost)
        return replace(state, current=state.current + cost)

    def refunded(self, state: Neighbours, now: int, after: Neighbours, cost: int) -> Neighbours:
        if now >= after.start + 2 * self.period:
            return state
        if state.start == after.start:
            return replace(state, current=max(0, state.current - cost))
        if state.start == after.start + self.period:
            return replace(state, previous=max(0, state.previous - cost))
        return state
