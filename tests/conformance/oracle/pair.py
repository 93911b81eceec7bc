"""A limit for an identifier, and the rules that hold for every algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .algorithm import Algorithm
from .answer import NEVER, Row
from .records import Key, Record


@dataclass(frozen=True)
class Pair:
    """A limit for an identifier as it stands at its own ``now``, and what is asked of it."""

    identifier: str | bytes
    limit: Any
    policy: str
    algorithm: Algorithm
    key: Key
    record: Record | None
    now: int
    cost: int
    patience: int | None
    extra: int = 0
    life: int = 0
    """How many units of the cost are for a lease of that life."""
    is_charged: bool = False

    @property
    def state(self) -> Any:
        return None if self.record is None else self.algorithm.at(self.record.state, self.now)

    @property
    def status(self) -> str:
        if self.cost > self.algorithm.most:
            return "never"
        return "ok" if self.fits and self.lateness <= 0 else "over"

    @property
    def fits(self) -> bool:
        return self.algorithm.fits(self.state, self.now, self.cost)

    @property
    def lateness(self) -> int:
        """How much later its turn comes than the caller's patience allows."""
        return 0 if self.patience is None else self.charged().delay - self.patience

    @property
    def retry_after(self) -> float:
        if self.status != "over":
            return NEVER if self.status == "never" else 0
        if self.fits:
            return self._not_after_expiry(self.lateness)
        return self._not_after_expiry(self.algorithm.retry(self.state, self.now, self.cost))

    @property
    def reset_after(self) -> int:
        if self.record is not None and self.is_charged and self.algorithm.holds(self.state):
            return self.record.expires_at - self.now
        return 0 if self.state is None else self._not_after_expiry(self.algorithm.reset(self.state, self.now))

    @property
    def delay(self) -> int:
        return self.algorithm.delay(self.state, self.now)

    def charged(self) -> Pair:
        if self.cost == 0:
            return self
        state = self.algorithm.leased(self.state, self.now, self.cost, self.extra, self.life)
        expires_at = self.now + self.algorithm.reset(state, self.now)
        if self.record is not None and self.algorithm.knows_refunds(state):
            expires_at = max(expires_at, self.record.expires_at)
        return replace(self, record=Record(expires_at, state), is_charged=True)

    def row(self, status: str, retry_after: float, locked_for: int = 0) -> Row:
        return Row(
            self.identifier,
            self.limit,
            self.policy,
            allowed=status == "ok" and not locked_for,
            remaining=0 if locked_for else self.algorithm.remaining(self.state, self.now),
            retry_after=max(retry_after, locked_for),
            reset_after=max(self.reset_after, locked_for),
            status=status,
            delay=self.delay,
        )

    def _not_after_expiry(self, duration: int) -> int:
        if self.record is None or self.state is None:
            return duration
        return min(duration, self.record.expires_at - self.now)
