"""Giving back: once, where it was charged, and never more than is still there."""

from __future__ import annotations

import copy
import pickle

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    hit_all,
)

from .answers import answer_of

EVERY = [
    FixedWindow(10, 10),
    FixedWindow(10, 10, start="epoch"),
    FixedWindow(10, "minute", start="calendar"),
    SlidingWindow(10, 10, precision=1),
    SlidingLog(10, 10),
    SlidingWindowCounter(10, 10),
    TokenBucket(10, per=10),
    TokenBucket(10, per=10, debt=5),
    TokenBucket(10, per=10, refill="interval"),
    LeakyBucket(5, per=5, capacity=5),
]
EACH = pytest.mark.parametrize("limit", EVERY, ids=repr)


def left(limiter, identifier="a"):
    """Return what an identifier has left."""
    return limiter.peek(identifier, cost=0).remaining


class TestEveryAlgorithm:
    @EACH
    def test_what_was_charged_at_this_instant_comes_back_whole(self, build, limit):
        limiter = build(limit)
        limiter.hit("a", cost=3)
        charged = limiter.hit("a", cost=4)
        assert left(limiter) == 3
        limiter.refund(charged)
        assert left(limiter) == 7
        assert limiter.hit("a", cost=7)
        assert left(limiter) == 0

    @EACH
    def test_a_second_time_does_nothing(self, build, limit):
        limiter = build(limit)
        limiter.hit("a", cost=5)
        charged = limiter.hit("a", cost=2)
        for _ in range(3):
            limiter.refund(charged)
        assert left(limiter) == 5

    @EACH
    def test_the_first_and_only_charge_leaves_nothing_used(self, build, limit):
        limiter = build(limit)
        limiter.refund(limiter.hit("a", cost=10))
        assert left(limiter) == 10
        assert limiter.hit("a", cost=10)

    @EACH
    def test_charges_come_back_in_any_order(self, build, limit):
        limiter = build(limit)
        charged = [limiter.hit("a", cost=cost) for cost in (1, 2, 3, 4)]
        for i, expected in ((2, 3), (0, 4), (3, 8), (1, 10)):
            limiter.refund(charged[i])
            assert left(limiter) == expected

    @EACH
    def test_what_is_of_other_identifiers_stays(self, build, limit):
        limiter = build(limit)
        limiter.hit("b", cost=3)
        limiter.refund(limiter.hit("a", cost=3))
        assert (left(limiter, "a"), left(limiter, "b")) == (10, 7)

    @EACH
    def test_of_several_identifiers_each_gets_its_own(self, build, limit):
        limiter = build(limit)
        limiter.hit("b", cost=3)
        limiter.refund(limiter.hit("a", "b", "a", b"b", cost=2))
        assert (left(limiter, "a"), left(limiter, "b")) == (10, 7)

    @EACH
    def test_what_charged_nothing_gives_nothing(self, build, limit):
        limiter = build(limit)
        limiter.hit("a", cost=8)
        for decision in (
            limiter.hit("a", cost=3),
            limiter.hit("a", cost=99),
            limiter.hit("a", cost=0),
            limiter.peek("a", cost=2),
        ):
            limiter.refund(decision)
        assert left(limiter) == 2

    @EACH
    def test_after_a_reset_it_does_nothing(self, build, limit):
        limiter = build(limit)
        charged = limiter.hit("a", cost=4)
        limiter.reset("a")
        limiter.refund(charged)
        assert left(limiter) == 10
        charged = limiter.hit("a", cost=4)
        limiter.reset("a")
        limiter.hit("a", cost=6)
        limiter.refund(charged)
        assert left(limiter) == 4

    @EACH
    def test_after_it_has_expired_it_does_nothing(self, build, at, limit):
        limiter = build(limit)
        charged = limiter.hit("a", cost=4)
        at(1000)
        limiter.hit("a", cost=6)
        limiter.refund(charged)
        assert left(limiter) == 4

    @EACH
    def test_a_copy_cannot_be_refunded(self, build, limit):
        limiter = build(limit)
        charged = limiter.hit("a", cost=4)
        for copied in (pickle.loads(pickle.dumps(charged)), copy.copy(charged), copy.deepcopy(charged)):
            if copied is not charged:
                limiter.refund(copied)
        assert left(limiter) == 6
        limiter.refund(charged)
        assert left(limiter) == 10

    @EACH
    def test_a_clock_that_goes_back_mints_nothing(self, build, at, limit):
        limiter = build(limit)
        at(3)
        charged = limiter.hit("a", cost=4)
        limiter.hit("a", cost=3)
        at(0)
        limiter.refund(charged)
        assert left(limiter) == 7

    @EACH
    def test_another_limiter_of_this_policy_gives_back_too(self, build, limit):
        charged = build(limit).hit("a", cost=4)
        build(limit).refund(charged)
        assert left(build(limit)) == 10

    @EACH
    def test_hits_and_refunds_without_end_never_grant_more_than_the_limit(self, build, at, limit):
        limiter, held = build(limit), []
        for step in range(60):
            at(step * 0.01)
            decision = limiter.hit("a", cost=1 + step % 3)
            if decision:
                held.append(decision)
            if step % 4 == 3 and held:
                limiter.refund(held.pop(step % len(held)))
            kept = sum(each.cost for each in held)
            assert kept <= 10 + 5 * (getattr(limit, "debt", 0) > 0) + 1
            assert left(limiter) <= 10 - kept + 1 or kept > 10


class TestWindows:
    def test_come_back_to_the_window_that_was_charged_and_to_no_later_one(self, build, at):
        limiter = build(FixedWindow(10, 10))
        charged = limiter.hit("a", cost=4)
        at(9.999999)
        limiter.refund(charged)
        assert limiter.peek("a", cost=0).reset_after == 0.000001, "the window stays as it was"
        charged = limiter.hit("a", cost=4)
        at(10)
        limiter.hit("a", cost=4)
        limiter.refund(charged)
        assert left(limiter) == 6

    def test_to_the_block_that_was_charged_while_it_counts(self, build, at):
        limiter = build(SlidingWindow(10, 10, precision=1))
        charged = limiter.hit("a", cost=4)
        at(10.999999)
        limiter.hit("a", cost=6)
        assert left(limiter) == 0
        limiter.refund(charged)
        assert left(limiter) == 4
        charged = limiter.hit("a", cost=4)
        at(20.999999)
        assert left(limiter) == 0
        at(21)
        assert left(limiter) == 10
        limiter.hit("a", cost=5)
        limiter.refund(charged)
        assert left(limiter) == 5

    def test_to_the_entry_that_was_charged_while_it_counts(self, build, at):
        limiter = build(SlidingLog(10, 10))
        first = limiter.hit("a", cost=4)
        at(5)
        second = limiter.hit("a", cost=6)
        at(9.999999)
        limiter.refund(first)
        assert left(limiter) == 4
        limiter.hit("a", cost=4)
        at(15)
        assert left(limiter) == 6
        limiter.refund(second)
        assert left(limiter) == 6

    def test_an_emptied_entry_lets_one_more_call_into_a_log(self, build):
        limiter = build(SlidingLog(3, 10))
        charged = [limiter.hit("a") for _ in range(3)]
        for decision in charged:
            limiter.refund(decision)
        assert [bool(limiter.hit("a")) for _ in range(4)] == [True] * 3 + [False]

    def test_to_the_window_before_while_that_still_counts(self, build, at):
        limiter = build(SlidingWindowCounter(10, 10))
        charged = limiter.hit("a", cost=8)
        at(15)
        assert left(limiter) == 6
        limiter.refund(charged)
        assert left(limiter) == 10
        charged = limiter.hit("a", cost=8)
        at(30)
        limiter.hit("a", cost=3)
        limiter.refund(charged)
        assert left(limiter) == 7


class TestBuckets:
    def test_what_has_drained_since_does_not_come_back(self, build, at):
        limiter = build(TokenBucket(1, per=1, burst=10))
        charged = limiter.hit("a", cost=6)
        at(2.5)
        limiter.hit("a", cost=5)  # 3.5 + 5 used
        limiter.refund(charged)  # 3.5 of its 6 are still there
        assert limiter.peek("a", cost=0).reset_after == 5.0
        at(3.499999)
        assert left(limiter) == 5
        at(3.5)
        assert left(limiter) == 6

    def test_all_of_it_comes_back_that_stands_before_what_was_there(self, build, at):
        limiter = build(TokenBucket(1, per=1, burst=10))
        limiter.hit("a", cost=6)
        charged = limiter.hit("a", cost=3)  # 9 used, of which the first 6 drain first
        at(6)
        limiter.refund(charged)
        assert limiter.peek("a", cost=0).reset_after == 0.0

    def test_nothing_comes_back_of_what_is_drained_to_the_microsecond(self, build, at):
        limiter = build(TokenBucket(1, per=1, burst=10))
        charged = limiter.hit("a", cost=2)
        at(1.999999)
        limiter.hit("a", cost=9)
        limiter.refund(charged)
        assert limiter.peek("a", cost=0).reset_after == 9.0
        late = limiter.hit("a")
        at(11.999999)
        limiter.hit("a", cost=10)
        limiter.refund(late)
        assert limiter.peek("a").retry_after == 1.0

    def test_a_debt_is_given_back(self, build):
        limiter = build(TokenBucket(1, per=1, burst=10, debt=20))
        charged = limiter.hit("a", cost=25)
        assert limiter.peek("a", cost=0).retry_after == 15.0
        limiter.refund(charged)
        assert left(limiter) == 10

    def test_by_the_interval_whole_intervals_have_drained(self, build, at):
        limiter = build(TokenBucket(4, per=2, burst=10, refill="interval"))
        charged = limiter.hit("a", cost=10)
        at(3.999999)
        limiter.refund(charged)  # 4 drained, 6 of it are left
        assert left(limiter) == 10
        charged = limiter.hit("a", cost=10)
        at(5.999998)  # a full bucket starts its phase anew: nothing has drained yet
        assert not limiter.hit("a")
        at(5.999999)
        limiter.hit("a")
        limiter.refund(charged)
        assert left(limiter) == 9

    def test_a_queue_gives_back_what_has_not_gone(self, build, at):
        limiter = build(LeakyBucket(2, per=1, capacity=8))
        charged = limiter.hit("a", cost=5)
        limiter.hit("a", cost=2)
        at(1.5)
        limiter.refund(charged)  # 2 have gone, 3 of it are left
        assert left(limiter) == 8
        assert limiter.hit("a", cost=1).delay == 0.5


class TestWhatIsRefunded:
    def test_all_limits_of_the_policy(self, build):
        limiter = build([FixedWindow(5, 60), SlidingWindow(7, 60), TokenBucket(9, 60)])
        limiter.hit("a")
        charged = limiter.hit("a", "b", cost=3)
        limiter.refund(charged)
        rows = [row.remaining for row in limiter.peek("a", "b", cost=0).details]
        assert rows == [4, 6, 8, 5, 7, 9]

    def test_all_policies_of_a_hit_all_by_any_of_them(self, build):
        one, other = build(FixedWindow(5, 60), name="one"), build(TokenBucket(9, 60), name="other")
        for refunding in (one, other):
            charged = hit_all([(one, "a", 2), (other, "a", 3), (other, "b", 0)])
            assert (left(one), left(other), left(other, "b")) == (3, 6, 9)
            refunding.refund(charged)
            one.refund(charged)
            assert (left(one), left(other), left(other, "b")) == (5, 9, 9)

    def test_a_decision_of_other_policies_is_a_value_error_and_stays_refundable(self, build):
        one, other = build(FixedWindow(5, 60), name="one"), build(FixedWindow(5, 60), name="other")
        charged = one.hit("a", cost=2)
        for _ in range(2):
            with pytest.raises(ValueError, match="polic"):
                other.refund(charged)
        assert (left(one), left(other)) == (3, 5)
        one.refund(charged)
        assert left(one) == 5

    @pytest.mark.parametrize("wrong", [None, 1, "decision", True])
    def test_what_is_no_decision_is_a_type_error(self, build, wrong):
        with pytest.raises(TypeError):
            build(FixedWindow(5, 60)).refund(wrong)

    def test_what_was_acquired(self, build):
        limiter = build(FixedWindow(5, 60))
        limiter.refund(limiter.acquire("a", cost=4))
        assert left(limiter) == 5

    def test_long_identifiers_and_bytes(self, build):
        limiter = build(FixedWindow(5, 60))
        ids = ["x" * 300, "y" * 300, b"\xff\x00", "é"]
        limiter.hit(ids[1])
        limiter.refund(limiter.hit(*ids, cost=3))
        assert [left(limiter, each) for each in ids] == [5, 4, 5, 5]

    def test_a_lock_stays(self, build):
        limiter = build(FixedWindow(1, 10), penalty=Penalty(60))
        charged = limiter.hit("a")
        limiter.hit("a")
        limiter.refund(charged)
        refused = limiter.peek("a")
        assert (refused.status, refused.retry_after) == ("locked", 60.0)

    def test_the_answer_that_was_given_does_not_change(self, build):
        limiter = build(FixedWindow(5, 60))
        charged = limiter.hit("a", cost=2)
        before = answer_of(charged)
        limiter.refund(charged)
        assert answer_of(charged) == before

    def test_after_the_limit_was_changed_what_was_charged_comes_back(self, build):
        limiter = build([FixedWindow(5, 60), TokenBucket(6, 60)])
        charged = limiter.hit("a", cost=4)
        limiter.update([TokenBucket(3, 60), FixedWindow(8, 60)])
        limiter.refund(charged)
        assert [row.remaining for row in limiter.peek("a", cost=0).details] == [3, 8]

    def test_what_the_policy_no_longer_has_is_none_of_it(self, build):
        limiter = build([FixedWindow(5, 60), FixedWindow(5, 90)])
        charged = limiter.hit("a", cost=4)
        limiter.update(FixedWindow(5, 60))
        limiter.refund(charged)
        assert left(limiter) == 5


def test_two_lives_of_a_key_at_one_instant_are_told_apart(build):
    limiter = build(FixedWindow(5, 60))
    first = limiter.hit("a", cost=2)
    limiter.reset("a")
    second = limiter.hit("a", cost=3)
    limiter.refund(first)
    assert left(limiter) == 2
    limiter.refund(second)
    assert left(limiter) == 5
