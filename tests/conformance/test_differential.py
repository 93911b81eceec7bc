"""Long histories, whose cells a server leaves in place if it can: every store answers as the oracle does.

Short lives, in which anything happens, are those of test_state_machine.py.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

import pytest

from overlimit import (
    Limiter,
    ManualClock,
    MemoryStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

from .answers import answer_of, expected_of
from .oracle import Oracle
from .strategies import LAST_US, START_US


class Together:
    """One policy, perhaps in several versions, the oracle and each store, on one clock."""

    names = map("trace-{}".format, itertools.count())

    def __init__(self, policies: list[tuple[Any, ...]], stores: list[Any]) -> None:
        name = next(self.names)
        self.now = START_US
        self.clock = ManualClock(start=START_US / 1e6)
        first = Oracle(policies[0], name)
        self.oracles = [Oracle(policy, name, first.records) for policy in policies]
        self.limiters = [
            [Limiter(list(policy), name=name, store=store, clock=self.clock) for store in stores]
            for policy in policies
        ]

    def move_to(self, us: int) -> None:
        """Move the clock, but not back to where a store may have forgotten what it saw expired."""
        self.now = min(max(us, self.oracles[0].settled_from, 0), LAST_US)
        self.clock.set(self.now / 1e6)

    def hit_later(self, us: int, version: int, *who: str, cost: int = 1) -> None:
        self.move_to(self.now + us)
        expected = expected_of(self.oracles[version].hit(self.now, list(who), cost))
        for limiter in self.limiters[version]:
            assert answer_of(limiter.hit(*who, cost=cost)) == expected


@pytest.fixture
def stores(shared_memory_store: Any, redis_store: Any) -> list[Any]:
    return [MemoryStore(), shared_memory_store, redis_store]


@pytest.mark.longer_in_prove
@pytest.mark.parametrize("seed", range(6 * int(os.environ.get("PROVE", "1"))))
def test_random_histories(stores, seed):
    chance = random.Random(seed)
    histories = [
        SlidingWindow(10**6, per=0.5),
        SlidingWindow(chance.choice([90, 10**6]), per=1, precision=0.1),
        SlidingLog(chance.choice([150, 10**4]), per=2),
        SlidingWindow(10**6, per=4, precision=0.01),
        SlidingWindow(10**6, per=60, precision=2),
        TokenBucket(10**6, per=1),
    ]
    policies = [tuple(chance.sample(histories, chance.randrange(1, 5))) for _ in range(2)]
    together = Together(policies, stores)
    for _ in range(250):
        who = chance.sample(["a", "b"], chance.choice([1, 1, 2]))
        move = chance.choice([0, 0, 1, 500, 2_000, 10_000, 20_000, 150_000, 700_000])
        together.hit_later(move, int(chance.random() < 0.05), *who, cost=chance.choice([1, 1, 3]))


SLOW = SlidingWindow(10**6, per=60, precision=2)
FAST, OTHER = SlidingWindowCounter(100, per=1), SlidingWindowCounter(100, per=1.5)


@pytest.mark.parametrize(
    ("policies", "steps"),
    [
        ([(SLOW, SlidingLog(100, per=0.5))], [(10_000, 0)] * 5 + [(600_000, 0), (10_000, 0)]),
        ([(SLOW, FAST), (SLOW, OTHER)], [(10_000, 0), (10_000, 1), (10_000, 0), (10_000, 1)]),
    ],
    ids=["of a value that becomes shorter", "beside another limit's record"],
)
def test_when_cells_stay(stores, policies, steps):
    together = Together(policies, stores)
    for move, version in [(0, 0), (2_000_000, 0), (2_000_000, 0), *steps]:
        together.hit_later(move, version, "a")
