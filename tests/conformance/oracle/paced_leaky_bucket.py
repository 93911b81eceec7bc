"""A queue that lets a burst go at once and spaces those behind it."""

from __future__ import annotations

from math import gcd

from .algorithm import rounded_up
from .token_bucket import Bucket, TokenBucket


class PacedLeakyBucket(TokenBucket):
    """It takes what a token bucket of as many tokens would; who is beyond the burst waits."""

    def __init__(self, rate: int, period: int, capacity: int, burst: int) -> None:
        common = gcd(rate, period)
        super().__init__(burst + capacity, period, period // common, rate // common)
        self.at_once = burst * self.units

    @property
    def identity(self) -> tuple[object, ...]:
        return ("paced_leaky_bucket", self.period)

    def delay(self, state: Bucket | None, now: int) -> int:
        if state is None or state.used <= self.at_once:
            return 0
        return state.last + rounded_up(state.used - self.at_once, self.refill) - now
