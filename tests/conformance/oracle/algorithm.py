"""What every algorithm answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


def rounded_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


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

    @abstractmethod
    def refunded(self, state: Any, now: int, after: Any, cost: int) -> Any:
        """The stored state without the ``cost`` that once made it ``after``, as far as that still counts."""

    def delay(self, state: Any, now: int) -> int:
        """How long a caller whose charge has led to this state waits before it proceeds."""
        return 0

    def fits(self, state: Any, now: int, cost: int) -> bool:
        return self._used(state, now) + cost <= self.most

    def remaining(self, state: Any, now: int) -> int:
        return max(0, int(self.most - self._used(state, now)))

    def _used(self, state: Any, now: int) -> float:
        return 0 if state is None else self.used(state, now)
