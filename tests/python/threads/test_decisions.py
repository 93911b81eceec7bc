"""One decision that threads refund, settle and read at once."""

from __future__ import annotations

import pickle

import pytest

from overlimit import FixedWindow, Limiter, MemoryStore, SlidingLog, TokenBucket, hit_all

from .together import THREADS, all_together

ROUNDS = 10
LIMITS = [FixedWindow(10, 86_400), SlidingLog(10, 86_400), TokenBucket(10, 10_000_000)]


def by_algorithm(limit: object) -> str:
    return type(limit).__name__


@pytest.mark.parametrize("limit", LIMITS, ids=by_algorithm)
def test_a_decision_is_refunded_once(limit):
    limiter = Limiter(limit)
    for turn in range(ROUNDS):
        decision = limiter.hit(f"{turn}", cost=3)
        assert limiter.hit(f"{turn}", cost=4)
        all_together(lambda _, decision=decision: limiter.refund(decision))
        assert limiter.peek(f"{turn}", cost=0).remaining == 6


@pytest.mark.parametrize("limit", LIMITS, ids=by_algorithm)
def test_a_decision_is_settled_once_at_the_cost_of_one_of_them(limit):
    limiter = Limiter(limit)
    for turn in range(ROUNDS):
        decision = limiter.hit(f"{turn}", cost=4)
        settled = all_together(lambda thread, decision=decision: limiter.settle(decision, thread))
        first = [each for each in settled if each is not decision]
        # Who settles what has been settled gets the decision back.
        assert len(first) == 1
        assert first[0].cost == settled.index(first[0])
        assert limiter.peek(f"{turn}", cost=0).remaining == 10 - first[0].cost


def test_a_decision_is_refunded_or_settled():
    limiter = Limiter(FixedWindow(10, 86_400))
    outcomes = set()
    for turn in range(ROUNDS):
        decision = limiter.hit(f"{turn}", cost=4)

        def end(thread: int, decision: object = decision) -> bool:
            if thread % 2:
                return limiter.settle(decision, 7) is not decision
            limiter.refund(decision)
            return False

        was_settled = sum(all_together(end))
        assert was_settled in (0, 1)
        assert limiter.peek(f"{turn}", cost=0).remaining == (3 if was_settled else 10)
        outcomes.add(was_settled)
    assert outcomes


def test_each_charge_of_a_decision_is_settled_by_its_limiter():
    store = MemoryStore()
    limiters = [Limiter(FixedWindow(10, 86_400), name=f"{i}", store=store) for i in range(4)]
    for turn in range(ROUNDS):
        decision = hit_all([(limiter, f"{turn}", 2) for limiter in limiters])

        def settle(thread: int, decision: object = decision) -> bool:
            return limiters[thread % 4].settle(decision, 5) is not decision

        settled = all_together(settle)
        assert [sum(settled[i::4]) for i in range(4)] == [1] * 4
        assert [limiter.peek(f"{turn}", cost=0).remaining for limiter in limiters] == [5] * 4


def test_what_is_read_of_a_decision_is_the_same_for_all():
    limiter = Limiter("10/second; 100/day", name="read")

    def read(decision: object) -> tuple[object, ...]:
        details = decision.details
        copied = pickle.loads(pickle.dumps(decision))
        return (
            *(details[0], details[1:], list(details), details == decision.details, hash(details)),
            *(repr(decision), decision.limit, decision.identifier, decision.cost, decision.retry_after),
            *(hash(decision), copied == decision, decision._with_shadows_enforced() is decision),
        )

    for _ in range(ROUNDS):
        decision = limiter.hit("a", "b")
        ours, *theirs = all_together(lambda _, decision=decision: read(decision))
        assert theirs == [ours] * (THREADS - 1)
        assert ours[2] == list(decision.details)


def test_many_decisions_give_each_row_as_one_object_that_is_refunded_once():
    limiter = Limiter(FixedWindow(1000, 86_400))
    many = limiter.hit_many(["a"] * 100)
    limiter.hit("a", cost=500)

    def refund(_thread: int) -> list[int]:
        for decision in many:
            limiter.refund(decision)
        return [id(decision) for decision in many]

    ours, *theirs = all_together(refund)
    assert theirs == [ours] * (THREADS - 1)
    assert limiter.peek("a", cost=0).remaining == 500
