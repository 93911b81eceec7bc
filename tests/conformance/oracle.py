"""The reference model: what docs/semantics.md says, in the plainest Python, slowly.

It shares no code with the package and reads nothing of a limit but its numbers. All times are integer
microseconds. An algorithm is one class of pure functions of (state, now, cost), a state of None being "never
seen"; the rules that hold for every algorithm are applied once, in ``Oracle``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

NEVER = math.inf


def rounded_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


class Algorithm(ABC):
    """One limit. The states it is handed belong to it, and ``now`` is never before ``time_of(state)``."""

    most: int  # what the limit can grant at all

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """What makes a record this limit's own: a limit with other numbers but these is still the same."""

    @abstractmethod
    def time_of(self, state: Any) -> int:
        """The stored time of a state, before which no call is thought to happen."""

    @abstractmethod
    def at(self, state: Any, now: int) -> Any:
        """The state as time has left it at ``now``; None when that equals never seen."""

    @abstractmethod
    def used(self, state: Any) -> int:
        """How much counts against the limit, in units."""

    @abstractmethod
    def retry(self, state: Any, now: int, cost: int) -> int:
        """How long until a cost that does not fit now will."""

    @abstractmethod
    def reset(self, state: Any, now: int) -> int:
        """How long until the state equals never seen."""

    @abstractmethod
    def charged(self, state: Any, now: int, cost: int) -> Any:
        """The state after charging ``cost`` > 0."""

    @property
    def units(self) -> int:
        """How many units one of cost is."""
        return 1

    def fits(self, state: Any, cost: int) -> bool:
        return self._used(state) + cost * self.units <= self.most * self.units

    def remaining(self, state: Any) -> int:
        return max(0, (self.most * self.units - self._used(state)) // self.units)

    def _used(self, state: Any) -> int:
        return 0 if state is None else self.used(state)


@dataclass(frozen=True)
class Window:
    start: int
    end: int
    count: int


class FixedWindow(Algorithm):
    def __init__(self, most: int, period: int, start: int) -> None:
        self.most, self.period, self.epoch = most, period, start == 1

    @property
    def identity(self) -> tuple[object, ...]:
        return ("fixed_window", self.epoch, self.period)

    def time_of(self, state: Window) -> int:
        return state.start

    def at(self, state: Window, now: int) -> Window | None:
        return state if now < state.end else None

    def used(self, state: Window) -> int:
        return state.count

    def retry(self, state: Window, now: int, cost: int) -> int:
        return state.end - now

    def reset(self, state: Window, now: int) -> int:
        return state.end - now

    def charged(self, state: Window | None, now: int, cost: int) -> Window:
        if state is not None:
            return Window(state.start, state.end, state.count + cost)
        start = now // self.period * self.period if self.epoch else now
        return Window(start, start + self.period, cost)


class SlidingWindow(Algorithm):
    """A state is what each block admitted: block -> count, counts above 0 only."""

    def __init__(self, most: int, period: int, precision: int) -> None:
        self.most, self.period, self.precision = most, period, precision
        self.blocks = period // precision

    @property
    def identity(self) -> tuple[object, ...]:
        return ("sliding_window", self.period, self.precision)

    def time_of(self, state: dict[int, int]) -> int:
        return max(state) * self.precision

    def at(self, state: dict[int, int], now: int) -> dict[int, int] | None:
        oldest = now // self.precision - self.blocks
        return {block: count for block, count in state.items() if block >= oldest} or None

    def used(self, state: dict[int, int]) -> int:
        return sum(state.values())

    def retry(self, state: dict[int, int], now: int, cost: int) -> int:
        return next(
            self._leaves(block) - now
            for block in sorted(state)
            if self.fits(self.at(state, self._leaves(block)), cost)
        )

    def reset(self, state: dict[int, int], now: int) -> int:
        return self._leaves(max(state)) - now

    def charged(self, state: dict[int, int] | None, now: int, cost: int) -> dict[int, int]:
        return dict(Counter(state or {}) + Counter({now // self.precision: cost}))

    def _leaves(self, block: int) -> int:
        """The instant at which a block no longer counts."""
        return (block + self.blocks + 1) * self.precision


@dataclass(frozen=True)
class Bucket:
    used: int
    last: int
    units: int


class TokenBucket(Algorithm):
    def __init__(self, burst: int, period: int, units: int, refill: int) -> None:
        self.most, self.period, self._units, self.refill = burst, period, units, refill

    @property
    def identity(self) -> tuple[object, ...]:
        return ("token_bucket", self.period)

    @property
    def units(self) -> int:
        return self._units

    def time_of(self, state: Bucket) -> int:
        return state.last

    def at(self, state: Bucket, now: int) -> Bucket | None:
        if self.refill == 0:
            return None
        rescaled = rounded_up(state.used * self.units, state.units)
        used = max(0, rescaled - self.refill * (now - state.last))
        return Bucket(used, now, self.units) if used else None

    def used(self, state: Bucket) -> int:
        return state.used

    def retry(self, state: Bucket, now: int, cost: int) -> int:
        return rounded_up(state.used + cost * self.units - self.most * self.units, self.refill)

    def reset(self, state: Bucket, now: int) -> int:
        return rounded_up(state.used, self.refill)

    def charged(self, state: Bucket | None, now: int, cost: int) -> Bucket:
        return Bucket((state.used if state else 0) + cost * self.units, now, self.units)


ALGORITHMS = {
    "fixed_window": FixedWindow,
    "sliding_window": SlidingWindow,
    "token_bucket": TokenBucket,
}


@dataclass(frozen=True)
class Row:
    """One (identifier, limit) pair of an answer."""

    identifier: str | bytes
    limit: Any
    policy: str
    allowed: bool
    remaining: int
    retry_after: float  # whole microseconds, or NEVER
    reset_after: int


@dataclass(frozen=True)
class OracleDecision:
    """An answer, durations and time in microseconds."""

    allowed: bool
    status: str
    remaining: int
    retry_after: float
    limit: Any
    identifier: str | bytes
    reset_after: int
    delay: int
    cost: int
    time: int
    source: str
    details: tuple[Row, ...]


@dataclass(frozen=True)
class Record:
    """A state, and the instant from which it counts as never seen, as it was written."""

    expires_at: int
    state: Any


@dataclass(frozen=True)
class Pair:
    """A limit for an identifier as it stands at its own ``now``, before this call charges anything."""

    identifier: str | bytes
    limit: Any
    algorithm: Algorithm
    key: tuple[object, ...]
    expires_at: int | None
    now: int
    state: Any

    def status(self, cost: int) -> str:
        if cost > self.algorithm.most:
            return "never"
        return "ok" if self.algorithm.fits(self.state, cost) else "over"

    def retry_after(self, cost: int) -> float:
        status = self.status(cost)
        if status == "over":
            return self._not_after_expiry(self.algorithm.retry(self.state, self.now, cost))
        return NEVER if status == "never" else 0

    def reset_after(self) -> int:
        return 0 if self.state is None else self._not_after_expiry(self.algorithm.reset(self.state, self.now))

    def after_charge(self, cost: int) -> Pair:
        state = self.algorithm.charged(self.state, self.now, cost)
        expires_at = self.now + self.algorithm.reset(state, self.now)
        return Pair(self.identifier, self.limit, self.algorithm, self.key, expires_at, self.now, state)

    def row(self, policy: str, cost: int | None) -> Row:
        """The pair as a row that was asked for ``cost``; None: the cost is paid already."""
        allowed = cost is None or self.status(cost) == "ok"
        return Row(
            self.identifier,
            self.limit,
            policy,
            allowed,
            self.algorithm.remaining(self.state),
            0 if cost is None else self.retry_after(cost),
            self.reset_after(),
        )

    def _not_after_expiry(self, duration: int) -> int:
        assert self.expires_at is not None
        return min(duration, self.expires_at - self.now)


@dataclass
class Oracle:
    """A policy and its records. Pass another oracle's ``records`` to share a store with it."""

    limits: tuple[Any, ...]
    name: str = "default"
    records: dict[tuple[object, ...], Record] = field(default_factory=dict)
    seen_expired: dict[tuple[object, ...], int] = field(default_factory=dict)

    def hit(self, now: int, identifiers: list[str | bytes], cost: int = 1) -> OracleDecision:
        pairs = self._pairs(now, identifiers)
        after = self._after(pairs, cost)
        if after is not None:
            for pair in after:
                assert pair.expires_at is not None
                self.records[pair.key] = Record(pair.expires_at, pair.state)
                self.seen_expired.pop(pair.key, None)
        return self._decision(pairs, after, now, cost)

    def peek(self, now: int, identifiers: list[str | bytes], cost: int = 1) -> OracleDecision:
        pairs = self._pairs(now, identifiers)
        return self._decision(pairs, self._after(pairs, cost), now, cost)

    def reset(self, identifiers: list[str | bytes]) -> None:
        dropped = {(self.name, as_bytes(identifier)) for identifier in identifiers}
        for key in [key for key in self.records if key[:2] in dropped]:
            del self.records[key]
            self.seen_expired.pop(key, None)

    def is_behind(self, now: int, identifiers: list[str | bytes]) -> bool:
        """Whether the clock is before the stored time of any record that the call reads."""
        return any(pair.now > now for pair in self._pairs(now, identifiers))

    @property
    def settled_from(self) -> int:
        """The instant from which answers are certain again.

        A store may drop a record that a call has found expired. Should the clock then jump back to before
        that expiry, the record may be there or not.
        """
        return max(self.seen_expired.values(), default=0)

    def _pairs(self, now: int, identifiers: list[str | bytes]) -> list[Pair]:
        firsts: dict[bytes, str | bytes] = {}
        for identifier in identifiers:
            firsts.setdefault(as_bytes(identifier), identifier)
        return [pair for identifier in firsts.values() for pair in self._pairs_of(now, identifier)]

    def _pairs_of(self, now: int, identifier: str | bytes) -> list[Pair]:
        pairs = []
        alike: Counter[tuple[object, ...]] = Counter()
        for limit in self.limits:
            algorithm = ALGORITHMS[limit.algorithm](*limit._numbers)
            tag = (*algorithm.identity, limit.name)
            key = (self.name, as_bytes(identifier), *tag, alike[tag])
            alike[tag] += 1
            pairs.append(self._pair(now, identifier, limit, algorithm, key))
        return pairs

    def _pair(
        self, now: int, identifier: str | bytes, limit: Any, algorithm: Algorithm, key: tuple[object, ...]
    ) -> Pair:
        record = self.records.get(key)
        if record is not None and record.expires_at <= now:
            self.seen_expired[key] = record.expires_at
            record = None
        if record is None:
            return Pair(identifier, limit, algorithm, key, None, now, None)
        now = max(now, algorithm.time_of(record.state))
        state = algorithm.at(record.state, now)
        return Pair(identifier, limit, algorithm, key, record.expires_at, now, state)

    def _after(self, pairs: list[Pair], cost: int) -> list[Pair] | None:
        """The pairs after the charge, or None when nothing is charged."""
        if cost == 0 or any(pair.status(cost) != "ok" for pair in pairs):
            return None
        return [pair.after_charge(cost) for pair in pairs]

    def _decision(self, before: list[Pair], after: list[Pair] | None, now: int, cost: int) -> OracleDecision:
        rows = [pair.row(self.name, cost) for pair in before]
        if after is not None:
            rows = [pair.row(self.name, None) for pair in after]
        allowed = all(row.allowed for row in rows)
        binding = binding_row(rows, allowed)
        never = any(pair.status(cost) == "never" for pair in before)
        return OracleDecision(
            allowed=allowed,
            status="ok" if allowed else "never" if never else "over",
            remaining=min(row.remaining for row in rows),
            retry_after=max(row.retry_after for row in rows),
            limit=binding.limit,
            identifier=binding.identifier,
            reset_after=binding.reset_after,
            delay=0,
            cost=cost,
            time=now,
            source="store",
            details=tuple(rows),
        )


def binding_row(rows: list[Row], allowed: bool) -> Row:
    """Refused: the longest retry. Allowed: the least remaining. Ties: the longest reset, then the first."""
    if allowed:
        return min(rows, key=lambda row: (row.remaining, -row.reset_after))
    refusing = [row for row in rows if not row.allowed]
    return max(refusing, key=lambda row: (row.retry_after, row.reset_after))


def as_bytes(identifier: str | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else identifier.encode("utf-8", "surrogatepass")
