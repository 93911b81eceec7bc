"""A server as a model: a thread that executes commands in turn, on records that the package itself keeps."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from overlimit import Bounds, Decision, Limiter, ManualClock, MemoryStore, RedisStore, bounds
from overlimit.limits import LeakyBucket, Limit, SlidingWindow, SlidingWindowCounter, TokenBucket

BEGINNING = 1_700_000_000.0
"""What the server's clock shows when a run begins, in seconds since 1970: a whole number of minutes."""


class Answer(NamedTuple):
    """What a command that decides is answered."""

    shown: float
    """The server's clock, in seconds since the beginning."""
    allowed: bool
    granted: int = 0
    """Extra units that were leased."""
    until: float = 0.0
    """Until when these count the same, by the server's clock."""
    refuses_until: float = 0.0
    """Until when the record would refuse the next call, if nobody changes it."""


Limits = tuple[Limit, ...]
"""Those of one policy."""


def bounds_of(limits: Limits, lease: float) -> Bounds:
    """Return how long a lease under some limits lasts at the longest, or why there is none.

    ValueError for a token bucket that refills continuously: its record on Redis holds what is leased, and
    records in memory do not.
    """
    for limit in limits:
        if isinstance(limit, TokenBucket) and limit.refill == "continuous":
            raise ValueError(f"{limit!r} holds what is leased, which this model does not: take another limit")
    with _unlogged():
        return bounds(Limiter(list(limits), name="fleet", store=RedisStore("redis://localhost", lease=lease)))


# A warning would name this limiter and its store, which nobody has.
@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    logger = logging.getLogger("overlimit")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class Records:
    """The records of all identifiers under some limits, at whatever instant commands say."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._clock = ManualClock(BEGINNING)
        self._limiter = Limiter(list(limits), store=MemoryStore(), clock=self._clock)
        self._leased: dict[int, tuple[Decision, int]] = {}

    def decide(self, now: float, identifier: str, number: int, wanted: int = 0) -> Answer:
        """Decide a call of cost 1; lease as many units more as are wanted, halved until there is room."""
        self._clock.set(BEGINNING + now)
        granted = self._granted(identifier, wanted)
        decision = self._limiter.hit(identifier, cost=1 + granted)
        if granted:
            self._leased[number] = decision, 1 + granted
        refuses_until = now + self._limiter.peek(identifier).retry_after
        return Answer(now, decision.allowed, granted, self._same_until(now, decision), refuses_until)

    def give_back(self, now: float, number: int, units: int) -> None:
        """Refund units of the lease that a command brought; nothing if these records know none."""
        self._clock.set(BEGINNING + now)
        decision, cost = self._leased.pop(number, (None, 0))
        if decision is not None:
            self._limiter.settle(decision, cost - units)

    # Four times as many must go at once, so that nobody takes more than a quarter of what is left.
    def _granted(self, identifier: str, wanted: int) -> int:
        while wanted > 0:
            most = self._limiter.peek(identifier, cost=1 + 4 * wanted)
            if most.allowed and most.delay == 0:
                return wanted
            wanted //= 2
        return 0

    def _same_until(self, now: float, decision: Decision) -> float:
        pairs = zip(self._limits, decision.details, strict=True)
        return min(same_until(now, limit, detail.reset_after) for limit, detail in pairs)


def same_until(now: float, limit: Limit, reset_after: float) -> float:
    """Return until when units under a limit count the same, whenever they are charged."""
    clock = BEGINNING + now
    if isinstance(limit, SlidingWindow | SlidingWindowCounter):
        length = float(limit.precision if isinstance(limit, SlidingWindow) else limit.per)
        return now + length - clock % length
    if isinstance(limit, TokenBucket | LeakyBucket):
        return now + (reset_after % float(limit.per) or float(limit.per))
    return now + reset_after


@dataclass(frozen=True)
class Speed:
    """How long things take, in seconds."""

    round_trip: float = 0.0002
    """From a process to the server and back, without what the server does."""
    decide: float = 20e-6
    lease: float = 30e-6
    refund: float = 20e-6

    @classmethod
    def of(cls, round_trip: float, decide: float) -> Speed:
        """Return that of a server on which a command takes so long."""
        return cls(round_trip, decide, 1.5 * decide, decide)


class Server:
    """One thread, a replica that lags behind, and failovers to it."""

    def __init__(self, limits: Limits, speed: Speed, *, lag: float = 0.0, down: float = 0.0) -> None:
        self._limits, self._speed, self._lag, self._down = limits, speed, lag, down
        self._records, self._replica = Records(limits), Records(limits)
        self._behind: deque[tuple[float, Callable[[Records], object]]] = deque()
        self._free_at = self._up_at = 0.0
        self.commands = 0
        self.busy = 0.0
        """Seconds for which it has computed."""

    def is_up(self, now: float) -> bool:
        return now >= self._up_at

    def fail_over(self, now: float) -> None:
        """Lose the master, with what the replica has not been told, and serve again after a while."""
        self._catch_up(now - self._lag)
        self._behind.clear()
        self._records, self._replica = self._replica, Records(self._limits)
        self._up_at = now + self._down

    def decide(self, arrived_at: float, identifier: str, number: int, wanted: int) -> tuple[Answer, float]:
        """Return an answer, and when it is sent."""
        now = self._begin(arrived_at, self._speed.lease if wanted else self._speed.decide)
        answer = self._records.decide(now, identifier, number, wanted)
        self._replicate(now, lambda records: records.decide(now, identifier, number, wanted))
        return answer, self._free_at

    def give_back(self, arrived_at: float, number: int, units: int) -> None:
        now = self._begin(arrived_at, self._speed.refund)
        self._records.give_back(now, number, units)
        self._replicate(now, lambda records: records.give_back(now, number, units))

    def _begin(self, arrived_at: float, takes: float) -> float:
        now = max(arrived_at, self._free_at)
        self._free_at = now + takes
        self.busy += takes
        self.commands += 1
        return now

    def _replicate(self, now: float, command: Callable[[Records], object]) -> None:
        if self._lag > 0 or self._down > 0:
            self._behind.append((now, command))
            self._catch_up(now - self._lag)

    def _catch_up(self, until: float) -> None:
        while self._behind and self._behind[0][0] <= until:
            self._behind.popleft()[1](self._replica)
