"""A queue that drains by the period."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .algorithm import (
    Algorithm,
    given_back,
    is_saturated,
    larger_sum,
    refunded_since,
    rounded_up,
    saturating,
    with_refund,
)


@dataclass(frozen=True)
class Queue:
    """``refunded``: what refunds have given back since the record began; None: unknown."""

    start: int
    count: int
    refunded: int | None = 0


class LeakyBucket(Algorithm):
    def __init__(self, rate: int, period: int, capacity: int) -> None:
        self.rate, self.period, self.capacity = rate, period, capacity
        self.most = capacity + rate

    @property
    def identity(self) -> tuple[object, ...]:
        return ("leaky_bucket", self.period)

    def time_of(self, state: Queue) -> int:
        return state.start

    def at(self, state: Queue, now: int) -> Queue | None:
        if self.rate == 0:
            return None
        periods = (now - state.start) // self.period
        count = state.count - periods * self.rate
        if count > 0:
            return replace(state, start=state.start + periods * self.period, count=count)
        return Queue(now, 0, state.refunded) if state.refunded != 0 else None

    def used(self, state: Queue, now: int) -> int:
        return state.count

    def retry(self, state: Queue, now: int, cost: int) -> int:
        return state.start + rounded_up(state.count + cost - self.most, self.rate) * self.period - now

    def reset(self, state: Queue, now: int) -> int:
        return 0 if self.rate == 0 else self._drained_at(state) - now

    def delay(self, state: Queue | None, now: int) -> int:
        if state is None or state.count <= self.rate or self.rate == 0:
            return 0
        return self._drained_at(state) - self.period - now

    def _drained_at(self, state: Queue) -> int:
        """When the queue is empty, as far as stores keep it."""
        return saturating(state.start + rounded_up(state.count, self.rate) * self.period)

    def charged(self, state: Queue | None, now: int, cost: int) -> Queue:
        if state is None:
            return Queue(now, saturating(cost))
        return replace(state, count=saturating(state.count + cost))

    def refunded(self, state: Queue, now: int, after: Queue, cost: int) -> Queue:
        if is_saturated(max(state.count, after.count)):
            return state
        drained = max(0, now - after.start) // self.period * self.rate
        back = given_back(cost, after.count, drained, refunded_since(state.refunded, after.refunded))
        return Queue(state.start, max(0, state.count - back), with_refund(state.refunded, back))

    def merged(self, own: Queue | None, told: Queue, now: int) -> Queue | None:
        """The longer queue, of which the later phase."""
        ours, theirs = (None if each is None else self.at(each, now) for each in (own, told))
        if theirs is None or theirs.count == 0:
            return None
        if ours is None or ours.count == 0:
            return theirs
        refunded = larger_sum(ours.refunded, theirs.refunded)
        return Queue(max(ours.start, theirs.start), max(ours.count, theirs.count), refunded)

    def drains_faster(self, other: LeakyBucket) -> bool:
        return self.rate > other.rate

    def knows_refunds(self, state: Queue) -> bool:
        return state.refunded not in (0, None)
