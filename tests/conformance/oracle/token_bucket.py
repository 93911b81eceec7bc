"""A bucket that fills with what is spent and drains with time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .algorithm import (
    EXACT,
    Algorithm,
    given_back,
    is_saturated,
    refunded_since,
    rounded_up,
    saturating,
    with_refund,
)


@dataclass(frozen=True)
class Bucket:
    """``refunded``: what refunds have given back since the record began; None: unknown."""

    used: int
    last: int
    units: int
    refunded: int | None = 0


class TokenBucket(Algorithm):
    """``refill`` units come back at the end of every ``every`` microseconds; 1 is continuous."""

    def __init__(
        self, burst: int, period: int, units: int, refill: int, every: int = 1, start: int = 0, debt: int = 0
    ) -> None:
        self.burst, self.period, self.units, self.refill = burst, period, units, refill
        self.every, self.start, self.debt = every, start, debt
        self.most = burst + debt

    @property
    def identity(self) -> tuple[object, ...]:
        return ("token_bucket", self.period, self.every, self.start)

    def time_of(self, state: Bucket) -> int:
        return state.last

    def stored_time(self, numbers: tuple[int, int, int]) -> int:
        return numbers[1]

    def at(self, state: Bucket, now: int) -> Bucket | None:
        if self.refill == 0:
            return None
        refills = (now - state.last) // self.every
        used = self._rescaled(state) - refills * self.refill
        refunded = state.refunded if state.units == self.units else None
        if used > 0:
            return Bucket(used, state.last + refills * self.every, self.units, refunded)
        return Bucket(0, self._phase(now), self.units, refunded) if refunded != 0 else None

    def used(self, state: Bucket, now: int) -> int:
        return state.used

    def fits(self, state: Bucket | None, now: int, cost: int) -> bool:
        return self._need(state, now, cost) <= 0

    def remaining(self, state: Bucket | None, now: int) -> int:
        return max(0, (self.burst * self.units - int(self._used(state, now))) // self.units)

    def retry(self, state: Bucket, now: int, cost: int) -> int:
        return state.last + rounded_up(self._need(state, now, cost), self.refill) * self.every - now

    def reset(self, state: Bucket, now: int) -> int:
        if self.refill == 0:
            return 0
        return max(0, saturating(state.last + rounded_up(state.used, self.refill) * self.every) - now)

    def charged(self, state: Bucket | None, now: int, cost: int) -> Bucket:
        if state is None:
            return Bucket(saturating(cost * self.units), self._phase(now), self.units)
        return replace(state, used=saturating(state.used + cost * self.units))

    def refunded(self, state: Bucket, now: int, after: Bucket, cost: int) -> Bucket:
        """In the record's own units, rounded to the safe side: ``after`` is in those of this limit."""
        if is_saturated(max(state.used, after.used)):
            return state
        drained = max(0, now - after.last) // self.every * self.refill
        since = refunded_since(state.refunded, after.refunded) if state.units == self.units else None
        back = given_back(cost * self.units, after.used, drained, since) * state.units // self.units
        refunded = with_refund(state.refunded, back, EXACT - 1 - state.units)
        return Bucket(max(0, state.used - back), state.last, state.units, refunded)

    def drains_faster(self, other: TokenBucket) -> bool:
        return self.refill * other.units > other.refill * self.units

    def counted(self, charged: TokenBucket, after: Bucket) -> Bucket:
        used = rounded_up(after.used * self.units, charged.units)
        refunded = after.refunded if charged.units == self.units else None
        return Bucket(used, after.last, self.units, refunded)

    def knows_refunds(self, state: Bucket) -> bool:
        return state.refunded not in (0, None)

    def _phase(self, now: int) -> int:
        return now // self.every * self.every if self.start == 1 else now

    def _need(self, state: Bucket | None, now: int, cost: int) -> int:
        used = int(self._used(state, now))
        most = (self.burst + self.debt) * self.units
        return max(used - self.burst * self.units, used + cost * self.units - most)

    def _rescaled(self, state: Bucket) -> int:
        return rounded_up(state.used * self.units, state.units)
