"""Instants that count until they are older than the period."""

from __future__ import annotations

from .entries import Entries

MOST_ENTRIES = 10_000


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

    def charged(self, state: dict[int, int] | None, now: int, cost: int) -> dict[int, int]:
        charged = super().charged(state, now, cost)
        if len(charged) > MOST_ENTRIES:
            oldest, second = sorted(charged)[:2]
            charged[second] += charged.pop(oldest)
        return charged

    def place(self, now: int) -> int:
        return now

    def merged(self, own: dict[int, int] | None, told: dict[int, int], now: int) -> dict[int, int]:
        merged = super().merged(own, told, now)
        while len(merged) > MOST_ENTRIES:
            oldest, second = sorted(merged)[:2]
            merged[second] += merged.pop(oldest)
        return merged

    def begins(self, place: int) -> int:
        return place

    def leaves(self, place: int) -> int:
        return place + self.period
