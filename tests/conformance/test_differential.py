"""Random traces: the oracle and every store give the same answers, field by field."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from .oracle import Oracle, OracleDecision
from .strategies import (
    LAST_US,
    START_US,
    costs,
    durations_of,
    examples,
    identifiers,
    limits,
    moves,
    renumbered,
)


@dataclass(frozen=True)
class Step:
    """Move the clock, then call."""

    kind: str  # hit | charge | peek | reset
    identifiers: list[str | bytes]
    cost: int
    move_us: int
    waits: bool  # after a refusal: come back a microsecond too early, then in time
    version: int  # which of the policies calls


Trace = tuple[list[tuple[Any, ...]], list[Step]]


@st.composite
def traces(draw: Any) -> Trace:
    """One policy and calls at any times."""
    policy = tuple(draw(st.lists(limits, min_size=1, max_size=4)))
    return [policy], draw(steps_of([policy], moves(durations_of(policy))))


@st.composite
def changing_traces(draw: Any) -> Trace:
    """Two versions of one policy, as during a deploy, and calls of either at ever later times."""
    policy = tuple(draw(st.lists(limits, min_size=1, max_size=3)))
    other = tuple(draw(renumbered(limit)) for limit in policy)
    return [policy, other], draw(steps_of([policy, other], moves(durations_of(policy)).map(abs)))


def steps_of(policies: list[Any], moves_us: st.SearchStrategy[int]) -> st.SearchStrategy[list[Step]]:
    step = st.builds(
        Step,
        st.sampled_from(["hit"] * 8 + ["charge", "peek", "reset"]),
        st.lists(identifiers, min_size=1, max_size=3),
        costs,
        moves_us,
        st.booleans(),
        st.integers(0, len(policies) - 1),
    )
    runs = st.lists(st.lists(step, min_size=1), min_size=1, max_size=8)  # many short lists make long ones
    return runs.map(lambda runs: [step for run in runs for step in run])


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

    def take(self, step: Step) -> None:
        self.move_to(self.now + step.move_us)
        if step.kind == "reset":
            self.oracles[step.version].reset(step.identifiers)
            for limiter in self.limiters[step.version]:
                limiter.reset(*step.identifiers)
            return
        decision = self.call(step.kind, step)
        if (
            step.kind != "charge"
            and step.waits
            and decision.status == "over"
            and self.now + decision.retry_after <= LAST_US
        ):
            self.come_back(step, int(decision.retry_after))

    def call(self, kind: str, step: Step) -> OracleDecision:
        oracle = self.oracles[step.version]
        decision: OracleDecision = getattr(oracle, kind)(self.now, step.identifiers, step.cost)
        for limiter in self.limiters[step.version]:
            answer = answer_of(getattr(limiter, kind)(*step.identifiers, cost=step.cost))
            assert answer == expected_of(decision)
        return decision

    def come_back(self, step: Step, retry_us: int) -> None:
        """retry_after is exact for a caller alone whose clock is not behind."""
        if self.oracles[step.version].is_behind(self.now, step.identifiers):
            return
        assert retry_us >= 1
        self.move_to(self.now + retry_us - 1)
        assert self.call("hit", step).status == "over"
        self.move_to(self.now + 1)
        assert self.call("hit", step).status == "ok"


@pytest.fixture
def stores(shared_memory_store: Any, redis_store: Any) -> list[Any]:
    return [MemoryStore(), shared_memory_store, redis_store]


relaxed = examples(60)
pytestmark = pytest.mark.longer_in_prove


def test_every_store_answers_as_the_oracle_does(stores):
    seen = Counter()

    @relaxed
    @given(trace=traces())
    def live(trace):
        policies, steps = trace
        together = Together(policies, stores)
        for step in steps:
            together.take(step)
            seen[together.oracles[0].peek(together.now, step.identifiers, step.cost).status] += 1
            seen["behind"] += together.oracles[0].is_behind(together.now, step.identifiers)

    live()
    assert seen["ok"] + seen["over"] + seen["never"] > 500
    assert min(seen[each] for each in ("ok", "over", "never", "behind")) > seen.total() / 25, seen


@relaxed
@given(trace=changing_traces())
def test_every_store_answers_as_the_oracle_does_while_numbers_change(stores, trace):
    policies, steps = trace
    together = Together(policies, stores)
    for step in steps:
        together.take(step)


@pytest.mark.parametrize("seed", range(6 * int(os.environ.get("PROVE", "1"))))
def test_every_store_answers_as_the_oracle_does_with_long_histories(stores, seed):
    """Whose cells a server leaves where they are if it can."""
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
        people = chance.sample(["a", "b"], chance.choice([1, 1, 2]))
        move = chance.choice([0, 0, 1, 500, 2_000, 10_000, 20_000, 150_000, 700_000])
        version = int(chance.random() < 0.05)
        together.take(Step("hit", people, chance.choice([1, 1, 3]), move, False, version))


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
def test_every_store_answers_as_the_oracle_does_when_cells_stay(stores, policies, steps):
    together = Together(policies, stores)
    for move, version in [(0, 0), (2_000_000, 0), (2_000_000, 0), *steps]:
        together.take(Step("hit", ["a"], 1, move, False, version))
