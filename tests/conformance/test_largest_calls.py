"""The largest call, 64 charges of policies with 16 limits each, is decided like any other (lua/README.md)."""

from __future__ import annotations

from itertools import cycle, islice

from overlimit import Limiter, ManualClock, MemoryStore, Penalty, hit_all
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms

START = 1_700_000_000
POLICIES, LIMITS = 64, 16


def limits_of(policy: int) -> list:
    """Sixteen limits of all algorithms, beginning with another one in each policy."""
    first = policy % len(ALGORITHMS)
    kinds = islice(cycle(ALGORITHMS.values()), first, first + LIMITS)
    return [kind.from_terms(Terms(3 + policy % 3, 60 + place)) for place, kind in enumerate(kinds)]


def limiters_on(store, clock) -> list[Limiter]:
    return [
        Limiter(limits_of(number), name=f"p{number}", store=store, clock=clock, penalty=Penalty([5, 10]))
        for number in range(POLICIES)
    ]


def answers(store) -> list:
    """What hits, a refund and a peek of the largest call answer, row by row."""
    clock = ManualClock(start=START)
    limiters = limiters_on(store, clock)
    decisions = []
    for _ in range(5):
        decisions.append(hit_all([(limiter, "a") for limiter in limiters]))
        clock.advance(7)
    limiters[0].refund(decisions[1])
    decisions.append(hit_all([(limiter, "a") for limiter in limiters]))
    decisions.append(limiters[-1].hit(*[f"user:{number}" for number in range(16)]))
    return [
        [decision.status]
        + [(row.allowed, row.remaining, row.retry_after, row.reset_after) for row in decision.details]
        for decision in decisions
    ]


def test_the_largest_call_is_answered_alike_by_memory_and_redis(redis_store):
    in_redis = answers(redis_store)
    assert [len(rows) - 1 for rows in in_redis] == [POLICIES * LIMITS] * 6 + [16 * LIMITS]
    assert {status for status, *_ in in_redis} == {"ok", "over", "locked"}
    assert in_redis == answers(MemoryStore())
