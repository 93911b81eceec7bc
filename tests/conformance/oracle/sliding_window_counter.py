"""Two windows, the older of which counts by the part of it that is still covered."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from .algorithm import Algorithm, is_saturated, saturating


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
            return Neighbours(now // self.period * self.period, 0, saturating(cost))
        return replace(state, current=saturating(state.current + cost))

    def refunded(self, state: Neighbours, now: int, after: Neighbours, cost: int) -> Neighbours:
        if now >= after.start + 2 * self.period:
            return state
        charged = state.current if state.start == after.start else state.previous
        if is_saturated(charged):
            return state
        if state.start == after.start:
            return replace(state, current=max(0, state.current - cost))
        if state.start == after.start + self.period:
            return replace(state, previous=max(0, state.previous - cost))
        return state

    def merged(self, own: Neighbours | None, told: Neighbours, now: int) -> Neighbours:
        """Both in the later window, the larger of each."""
        if own is None:
            return told
        start = max(own.start, told.start)
        both = [self._moved(state, start) for state in (own, told)]
        return Neighbours(start, max(b.previous for b in both), max(b.current for b in both))

    def lasts_until(self, state: Neighbours, now: int) -> int:
        return state.start + 2 * self.period

    def _moved(self, state: Neighbours, start: int) -> Neighbours:
        if state.start == start:
            return state
        return Neighbours(start, state.current if state.start + self.period == start else 0, 0)
