"""A process whose threads hit the identifier of the current round, and tell what came of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from overlimit import Decision, Limiter, RedisStore, StoreError

OVER = -1
"""The round in which workers stop."""

_PAUSE = 0.001


@dataclass(frozen=True)
class Assignment:
    """Where a worker calls, and how: ``limit`` per day and round, ``timeout`` in seconds."""

    target: str
    url: str
    prefix: str
    limit: int
    timeout: float
    threads: int

    def limiter(self) -> Limiter:
        return Limiter(
            f"{self.limit}/day",
            name="default",
            store=RedisStore(self.url, timeout=self.timeout, prefix=self.prefix),
        )


@dataclass
class Tally:
    """The outcomes of the calls of one round; ``slowest`` in seconds."""

    target: str
    round: int
    acknowledged: int = 0
    refused: int = 0
    failed: int = 0
    unknown: int = 0
    slowest: float = 0.0
    last_error: str = ""

    @property
    def calls(self) -> int:
        return self.acknowledged + self.refused + self.failed + self.unknown

    def enter(self, outcome: Decision | StoreError, seconds: float) -> None:
        self.slowest = max(self.slowest, seconds)
        if isinstance(outcome, StoreError):
            self.unknown += outcome.maybe_charged
            self.failed += not outcome.maybe_charged
            self.last_error = str(outcome)
        else:
            self.acknowledged += outcome.allowed
            self.refused += not outcome.allowed

    def add(self, other: Tally) -> None:
        self.acknowledged += other.acknowledged
        self.refused += other.refused
        self.failed += other.failed
        self.unknown += other.unknown
        self.slowest = max(self.slowest, other.slowest)
        self.last_error = other.last_error or self.last_error


def identifier_of(number: int) -> str:
    return f"round:{number}"


def work(assignment: Assignment, current: Any, answered: Any, tallies: Any) -> None:
    """Call until the round is OVER.

    ``current`` and ``answered`` are shared numbers, the round and how many calls a server has decided;
    ``tallies`` is a queue that gets one Tally per thread and round.
    """
    limiter = assignment.limiter()
    threads = [
        threading.Thread(target=_call, args=(assignment, limiter, current, answered, tallies))
        for _ in range(assignment.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _call(assignment: Assignment, limiter: Limiter, current: Any, answered: Any, tallies: Any) -> None:
    while (now := current.value) != OVER:
        tally = Tally(assignment.target, now)
        while current.value == now:
            began = time.monotonic()
            outcome = _hit(limiter, identifier_of(now))
            tally.enter(outcome, time.monotonic() - began)
            answered.value += isinstance(outcome, Decision)
            time.sleep(_PAUSE)
        tallies.put(tally)


def _hit(limiter: Limiter, identifier: str) -> Decision | StoreError:
    try:
        return limiter.hit(identifier)
    except StoreError as error:
        # Its traceback would keep what it went through alive.
        return error.with_traceback(None)
