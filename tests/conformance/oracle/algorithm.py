"""What every algorithm answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

EXACT = 2**53  # integers that stores keep are below it


def saturating(count: int) -> int:
    """What stores keep of a count."""
    return min(count, EXACT - 1)


def is_saturated(count: int) -> bool:
    """Whether what a count is made of can no longer be told."""
    return count >= EXACT - 1


def rounded_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def given_back(cost: int, used: int, drained: int, refunded: int | None) -> int:
    """What a bucket gives back of a charge, since which so much has drained and so much was refunded.

    ``used`` is what was used right after the charge. The charge drains first at the worst, so what has not
    drained then is certain; it drains last at the best, but what was refunded since did not drain before it.
    """
    at_worst = max(0, cost - drained)
    return at_worst if refunded is None else max(at_worst, min(cost, used - drained - refunded))


def with_refund(refunded: int | None, amount: int, limit: int = EXACT - 1) -> int | None:
    """The sum of a record's refunds after one more; None once it is unknown, or no store can keep it."""
    return None if refunded is None or refunded + amount >= limit else refunded + amount


def larger_sum(one: int | None, other: int | None) -> int | None:
    """The larger of two sums of refunds; None: unknown."""
    return None if one is None or other is None else max(one, other)


def refunded_since(now: int | None, then: int | None) -> int | None:
    return None if now is None or then is None else max(0, now - then)


class Algorithm(ABC):
    """One limit. The states it is handed belong to it, and ``now`` is never before ``time_of(state)``."""

    most: int  # what the limit can grant at all

    @classmethod
    def of(cls, limit: Any) -> Algorithm:
        """The algorithm of a limit, from its numbers."""
        return cls(*limit._numbers)

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """What makes a record this limit's own: a limit with other numbers but these is still the same."""

    @abstractmethod
    def time_of(self, state: Any) -> int:
        """The stored time of a state, before which no call is thought to happen."""

    def stored_time(self, numbers: tuple[int, int, int]) -> int:
        """The time of a state as stores keep it (lua/README.md), from its three numbers."""
        return numbers[0]

    @abstractmethod
    def at(self, state: Any, now: int) -> Any:
        """The state as time has left it at ``now``; None when that equals never seen."""

    @abstractmethod
    def used(self, state: Any, now: int) -> float:
        """How much counts against the limit, in units, of a state as it is at ``now``."""

    @abstractmethod
    def retry(self, state: Any, now: int, cost: int) -> int:
        """How long until a cost that does not fit now will."""

    @abstractmethod
    def reset(self, state: Any, now: int) -> int:
        """How long until the state equals never seen."""

    @abstractmethod
    def charged(self, state: Any, now: int, cost: int) -> Any:
        """The state after charging ``cost`` > 0."""

    def leased(self, state: Any, now: int, cost: int, extra: int, life: int) -> Any:
        """The state after charging ``cost``, of which ``extra`` units are spent within ``life``."""
        return self.charged(state, now, cost)

    def holds(self, state: Any) -> bool:
        """Whether units are held for leases: a charge then says when its record expires, not its state."""
        return False

    @abstractmethod
    def refunded(self, state: Any, now: int, after: Any, cost: int) -> Any:
        """The stored state without the ``cost`` that once made it ``after``, as far as that still counts."""

    @abstractmethod
    def merged(self, own: Any, told: Any, now: int) -> Any:
        """The stricter of a stored state, or None, and one that was told; None: the told one says nothing.

        ``now`` is not before the time of either.
        """

    def lasts_until(self, state: Any, now: int) -> int:
        """When a merged state equals never seen."""
        return now + self.reset(state, now)

    def drains_faster(self, other: Any) -> bool:
        """Whether this is a faster bucket than one of the same tag."""
        return False

    def counted(self, charged: Any, after: Any) -> Any:
        """What a charge by a slower bucket led to, as this one counts it."""
        return after

    def knows_refunds(self, state: Any) -> bool:
        """Whether the state says what refunds have given back: its record never expires earlier then."""
        return False

    def delay(self, state: Any, now: int) -> int:
        """How long a caller whose charge has led to this state waits before it proceeds."""
        return 0

    def fits(self, state: Any, now: int, cost: int) -> bool:
        return self._used(state, now) + cost <= self.most

    def remaining(self, state: Any, now: int) -> int:
        return max(0, int(self.most - self._used(state, now)))

    def _used(self, state: Any, now: int) -> float:
        return 0 if state is None else self.used(state, now)
