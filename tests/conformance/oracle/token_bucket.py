"""A bucket that fills with what is spent and drains with time."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from .algorithm import (
    EXACT,
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
class Bucket:
    """``refunded``: what refunds have given back since the record began, and holds that have passed; None:
    unknown. ``held``: the units that do not drain before an instant, as (instant, units), the earliest first.
    """

    used: int
    last: int
    units: int
    refunded: int | None = 0
    held: tuple[tuple[int, int], ...] = ()

    @property
    def floor(self) -> int:
        """What does not drain before all holds have passed."""
        return saturating(sum(units for _, units in self.held))


class TokenBucket(Algorithm):
    """``refill`` units come back at the end of every ``every`` microseconds; 1 is continuous."""

    most_holds = 8

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
        if state.held:
            return self._with_holds_at(state, now)
        refills = (now - state.last) // self.every
        used = self._rescaled(state) - refills * self.refill
        refunded = state.refunded if state.units == self.units else None
        if used > 0:
            return Bucket(used, state.last + refills * self.every, self.units, refunded)
        return Bucket(0, self._phase(now), self.units, refunded) if refunded != 0 else None

    def _with_holds_at(self, state: Bucket, now: int) -> Bucket | None:
        """From one end of a hold to the next."""
        refunded = state.refunded if state.units == self.units else None
        moved = Bucket(self._rescaled(state), state.last, self.units, refunded, self.rescaled_holds(state))
        for until, units in moved.held:
            if until > now:
                break
            used = max(moved.floor, moved.used - (until - moved.last) * self.refill)
            refunded = self.after_hold(moved.refunded, units)
            moved = Bucket(used, until, self.units, refunded, moved.held[1:])
        used = max(moved.floor, moved.used - (now - moved.last) * self.refill)
        moved = replace(moved, used=used, last=now)
        return None if used == 0 and moved.refunded == 0 else moved

    def rescaled_holds(self, state: Bucket) -> tuple[tuple[int, int], ...]:
        return tuple((until, rounded_up(units * self.units, state.units)) for until, units in state.held)

    def after_hold(self, refunded: int | None, units: int) -> int | None:
        """The sum of refunds once a hold has passed: from then on it drains, which no refund can see."""
        return with_refund(refunded, units, EXACT - 1 - self.units)

    def _first(self, state: Bucket, now: int, most: int) -> int:
        """The first instant from now on at which no more is used of a state with holds, which only drains."""
        latest = max(until for until, _ in state.held)
        instants = range(now, latest + rounded_up(self._rescaled(state), self.refill) + 1)
        return instants[
            bisect_left(instants, True, key=lambda at: self._used(self.at(state, at), at) <= most)
        ]

    def used(self, state: Bucket, now: int) -> int:
        return state.used

    def fits(self, state: Bucket | None, now: int, cost: int) -> bool:
        return self._need(state, now, cost) <= 0

    def remaining(self, state: Bucket | None, now: int) -> int:
        return max(0, (self.burst * self.units - int(self._used(state, now))) // self.units)

    def retry(self, state: Bucket, now: int, cost: int) -> int:
        if state.held:
            return self._first(state, now, state.used - self._need(state, now, cost)) - now
        return state.last + rounded_up(self._need(state, now, cost), self.refill) * self.every - now

    def reset(self, state: Bucket, now: int) -> int:
        if self.refill == 0:
            return 0
        if state.held:
            return max(0, saturating(self._first(state, now, 0)) - now)
        return max(0, saturating(state.last + rounded_up(state.used, self.refill) * self.every) - now)

    def charged(self, state: Bucket | None, now: int, cost: int) -> Bucket:
        if self.refill == 0:
            return Bucket(0, now, self.units)  # without a rate, nothing is kept
        if state is None:
            return Bucket(saturating(cost * self.units), self._phase(now), self.units)
        return replace(state, used=saturating(state.used + cost * self.units))

    def leased(self, state: Bucket | None, now: int, cost: int, extra: int, life: int) -> Bucket:
        charged = self.charged(state, now, cost)
        if not extra or self.every != 1:
            return charged
        until, units = self.held_until(now, life), extra * self.units
        ends = dict(charged.held)
        held = sorted({**ends, until: ends.get(until, 0) + units}.items())
        while len(held) > self.most_holds:
            held = [self.joined(*held[:2]), *held[2:]]
        return replace(charged, held=tuple(held))

    def held_until(self, now: int, life: int) -> int:
        """The first of the halves of a life since the epoch that is not before a life from now."""
        half = rounded_up(life, 2)
        return rounded_up(now + life, half) * half

    def joined(self, oldest: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        """One hold for two, where there are too many."""
        return second[0], oldest[1] + second[1]

    def holds(self, state: Bucket) -> bool:
        return state is not None and bool(state.held)

    def refunded(self, state: Bucket, now: int, after: Bucket, cost: int) -> Bucket:
        """In the record's own units, rounded to the safe side: ``after`` is in those of this limit.

        What is held is not given back, and what was held right after the charge could not drain in its place.
        It is still held, or counts among the refunds since.
        """
        if after.used == 0 or is_saturated(max(state.used, after.used)):
            return state  # without a rate, nothing was kept
        drained = max(0, now - after.last) // self.every * self.refill
        since = refunded_since(state.refunded, after.refunded) if state.units == self.units else None
        used = after.used - self.could_not_drain(state)
        back = given_back(cost * self.units, used, drained, since) * state.units // self.units
        if state.held:
            back = min(back, self.may_be_given_back(state))
        refunded = with_refund(state.refunded, back, EXACT - 1 - state.units)
        return replace(state, used=max(0, state.used - back), refunded=refunded)

    def could_not_drain(self, state: Bucket) -> int:
        return state.floor

    def may_be_given_back(self, state: Bucket) -> int:
        return max(0, state.used - state.floor)

    def merged(self, own: Bucket | None, told: Bucket, now: int) -> Bucket | None:
        """The larger use, the later phase, and of the holds that end together the larger."""
        ours, theirs = (None if each is None else self.at(each, now) for each in (own, told))
        if theirs is None or theirs.used == 0:
            return None
        if ours is None or ours.used == 0:
            return theirs
        held = dict(ours.held)
        for until, units in theirs.held:
            held[until] = max(units, held.get(until, 0))
        few = sorted(held.items())
        while len(few) > self.most_holds:
            few = [self.joined(*few[:2]), *few[2:]]
        used, last = max(ours.used, theirs.used), max(ours.last, theirs.last)
        bucket = Bucket(used, last, self.units, larger_sum(ours.refunded, theirs.refunded), tuple(few))
        return replace(bucket, used=max(used, bucket.floor))

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
        return saturating(rounded_up(state.used * self.units, state.units))
