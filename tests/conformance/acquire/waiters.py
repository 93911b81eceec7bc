"""What the tests of waiting share: who waits, what it was told, and each limit to wait for."""

from __future__ import annotations

import queue
import time
from concurrent.futures import wait

import pytest

from overlimit import TokenBucket, waiting
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms

PATIENCE = 20.0
A_MOMENT = 0.05  # how long something is watched that should not happen
ONE_PER_10_S = [
    *(kind.from_terms(Terms(1, 10)) for kind in ALGORITHMS.values()),
    TokenBucket(1, per=10, refill="interval"),
]
EACH = pytest.mark.parametrize("limit", ONE_PER_10_S, ids=repr)


def queued(limiter):
    """Return how many wait in the line of a limiter."""
    return len(waiting.wait_queues().by_family.get(limiter._family, ()))


def used(limiter, identifier):
    return limiter.limits[0].quota - limiter.peek(identifier, cost=0).remaining


def until(condition):
    """Come back as soon as a condition holds; fail when it doesn't for long."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.001)


def still_waits(caller):
    return not wait([caller], timeout=A_MOMENT).done


class Told:
    """What ``on_decision`` was told, in order."""

    def __init__(self):
        self._decisions = queue.Queue()

    def __call__(self, decision):
        self._decisions.put(decision)

    def next(self):
        return self._decisions.get(timeout=PATIENCE)

    def rest(self):
        return [self._decisions.get_nowait() for _ in range(self._decisions.qsize())]
