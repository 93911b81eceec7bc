"""Blocks that count until they are older than the period."""

from __future__ import annotations

from .entries import Entries


class SlidingWindow(Entries):
    """Places are blocks of ``precision``, numbered from the epoch."""

    def __init__(self, most: int, period: int, precision: int) -> None:
        self.most, self.period, self.precision = most, period, precision

    @property
    def identity(self) -> tuple[object, ...]:
        return ("sliding_window", self.period, self.precision)

    def time_of(self, state: dict[int, int]) -> int:
        return max(state) * self.precision

    def stored_time(self, numbers: tuple[int, int, int]) -> int:
        return numbers[0] * self.precision

    def reset(self, state: dict[int, int], now: int) -> int:
        return max((self.leaves(block) - now for block, count in state.items() if count), default=0)

    def place(self, now: int) -> int:
        return now // self.precision

    def begins(self, place: int) -> int:
        return place * self.precision

    def leaves(self, place: int) -> int:
        return (place + self.period // self.precision + 1) * self.precision
