"""Limits that change while calls go on: each limit keeps what was used, and nothing else is kept."""

from __future__ import annotations

import logging

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

COUNTING = [
    lambda most: FixedWindow(most, 10),
    lambda most: FixedWindow(most, "minute", start="calendar", timezone="Europe/Berlin"),
    lambda most: SlidingWindow(most, 10, precision=1),
    lambda most: SlidingLog(most, 10),
    lambda most: SlidingWindowCounter(most, 10),
    lambda most: TokenBucket(10, per=10, burst=most),
    lambda most: TokenBucket(10, per=10, burst=most, refill="interval"),
    lambda most: LeakyBucket(2, per=10, capacity=most - 2),
]
EACH = pytest.mark.parametrize("of", COUNTING, ids=lambda of: repr(of(9)))

# How a change reaches those who count: by the one limiter there is, or by another process's.
HOW = pytest.mark.parametrize("how", ["updated", "deployed"])


@pytest.fixture
def change(build):
    """Return a function that changes a limiter's limits: of this very one, or of one of a new process."""

    def changed(how, limiter, limits):
        if how == "deployed":
            return build(limits, name=limiter.name)
        limiter.update(limits)
        return limiter

    return changed


def remaining(limiter, identifier="a"):
    return [row.remaining for row in limiter.peek(identifier, cost=0).details]


class TestANumber:
    @EACH
    @HOW
    def test_that_is_raised_grants_the_difference(self, build, change, of, how):
        limiter = build(of(5))
        assert [bool(limiter.hit("a")) for _ in range(6)] == [True] * 5 + [False]
        limiter = change(how, limiter, of(8))
        assert [bool(limiter.hit("a")) for _ in range(5)] == [True] * 3 + [False] * 2

    @EACH
    @HOW
    def test_that_is_lowered_refuses_until_usage_has_gone(self, build, change, of, how):
        limiter = build(of(8))
        limiter.hit("a", cost=6)
        limiter = change(how, limiter, of(4))
        assert limiter.peek("a", cost=0).status == "over"
        assert remaining(limiter) == [0]
        assert limiter.hit("a", cost=5).status == "never"
        assert limiter.hit("b", cost=4)

    @EACH
    def test_that_is_lowered_and_raised_again_is_as_before(self, build, of):
        limiter = build(of(8))
        limiter.hit("a", cost=6)
        limiter.update(of(4))
        limiter.hit("a")
        limiter.update(of(8))
        assert remaining(limiter) == [2]

    @HOW
    def test_50_a_second_raised_to_60_at_the_61st_call_admits_ten_more(self, build, change, how):
        limiter = build(FixedWindow(50, 1))
        assert sum(bool(limiter.hit("a")) for _ in range(60)) == 50
        limiter = change(how, limiter, FixedWindow(60, 1))
        assert sum(bool(limiter.hit("a")) for _ in range(40)) == 10

    def test_that_is_lowered_waits_as_exactly_as_any_other(self, build, at):
        limiter = build([SlidingLog(10, 10)])
        for second in range(6):
            at(second)
            limiter.hit("a")
        limiter.update(SlidingLog(3, 10))
        assert limiter.peek("a", cost=0).retry_after == 7.0  # until the third of six has left
        assert limiter.hit("a").retry_after == 8.0
        at(12.999999)
        assert not limiter.hit("a")
        at(13)
        assert limiter.hit("a").remaining == 0

    def test_rate_and_burst_of_a_bucket_that_gets_faster(self, build, at):
        limiter = build(TokenBucket(1, per=1, burst=10))
        limiter.hit("a", cost=8)
        limiter.update(TokenBucket(3, per=1, burst=5))
        assert limiter.peek("a", cost=0).retry_after == 1.0  # 8 used of 5, 3 go in a second
        assert limiter.hit("a").retry_after == 1.333334
        at(1.333333)
        assert not limiter.hit("a")
        at(1.333334)
        assert limiter.hit("a").remaining == 0

    def test_what_a_bucket_has_used_is_never_rounded_down(self, build):
        limiter = build(TokenBucket(3, per=1, burst=10))
        for _ in range(5):
            assert limiter.hit("a")
        for rate in (7, 1, 0.3, 11, 3):
            limiter.update(TokenBucket(rate, per=1, burst=10))
            assert limiter.hit("a", cost=6).status == "over"
            assert limiter.peek("a", cost=5)

    def test_to_0_refuses_and_back_does_not(self, build):
        limiter = build(FixedWindow(5, 60))
        limiter.hit("a")
        limiter.update("0/minute")
        limiter.update(FixedWindow(0, 60))
        assert limiter.hit("b").status == "never"
        limiter.update(FixedWindow(5, 60))
        assert remaining(limiter) == [4]


class TestAnotherLimit:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (FixedWindow(5, 60), FixedWindow(5, 61)),
            (FixedWindow(5, 60), FixedWindow(5, 60, start="epoch")),
            (FixedWindow(5, 60), FixedWindow(5, "minute", start="calendar")),
            (FixedWindow(5, 60), FixedWindow(5, 60, name="named")),
            (FixedWindow(5, 60), SlidingWindow(5, 60)),
            (FixedWindow(5, 60, name="one"), FixedWindow(5, 60, name="other")),
            (
                FixedWindow(5, "day", start="calendar"),
                FixedWindow(5, "day", start="calendar", timezone="Europe/Berlin"),
            ),
            (
                FixedWindow(5, "week", start="calendar"),
                FixedWindow(5, "week", start="calendar", week_start=6),
            ),
            (FixedWindow(5, "day", start="calendar"), FixedWindow(5, "week", start="calendar")),
            (SlidingWindow(5, 60), SlidingWindow(5, 60, precision=1)),
            (SlidingLog(5, 60), SlidingLog(5, 30)),
            (SlidingWindowCounter(5, 60), SlidingWindowCounter(5, 30)),
            (TokenBucket(5, per=60), TokenBucket(5, per=60, refill="interval")),
            (TokenBucket(5, per=60), TokenBucket(5, per=30)),
            (TokenBucket(5, 60, refill="interval"), TokenBucket(5, 60, refill="interval", start="epoch")),
            (LeakyBucket(5, per=60, capacity=0), LeakyBucket(5, per=30, capacity=0)),
        ],
        ids=repr,
    )
    @HOW
    def test_begins_empty_and_the_old_one_is_kept_as_long_as_it_counts(self, build, change, old, new, how):
        limiter = build(old)
        assert limiter.hit("a", cost=4)
        limiter = change(how, limiter, new)
        assert limiter.hit("a", cost=3).remaining == 2
        limiter = change(how, limiter, old)
        assert remaining(limiter) == [1]
        limiter = change(how, limiter, [new, old])
        assert remaining(limiter) == [2, 1]

    def test_the_precision_that_is_the_default_is_the_same_limit(self, build):
        limiter = build(SlidingWindow(5, 50))
        limiter.hit("a", cost=4)
        limiter.update(SlidingWindow(5, 50, precision=1))
        assert remaining(limiter) == [1]

    @HOW
    def test_order_additions_and_removals_change_nothing_else(self, build, change, how):
        one, two, three = FixedWindow(5, 60), SlidingLog(6, 60), TokenBucket(7, 60)
        limiter = build([one, two, three])
        limiter.hit("a", cost=2)
        for limits, expected in (
            ([three, one, two], [5, 3, 4]),
            ([two], [4]),
            ([three, two], [5, 4]),
            ([FixedWindow(9, 90), one], [9, 3]),
        ):
            limiter = change(how, limiter, limits)
            assert remaining(limiter) == expected

    def test_one_that_is_away_still_counts_what_was_charged_before_only(self, build, at):
        limiter = build([FixedWindow(5, 60), SlidingLog(5, 60)])
        limiter.hit("a", cost=2)
        limiter.update(FixedWindow(5, 60))
        at(1)
        limiter.hit("a", cost=2)
        limiter.update([SlidingLog(5, 60), FixedWindow(5, 60)])
        assert remaining(limiter) == [3, 1]
        at(60)
        assert remaining(limiter) == [5, 5]


class TestEqualTags:
    def test_the_smallest_of_two_alike_decides(self, build):
        limiter = build([FixedWindow(10, 60), FixedWindow(20, 60)])
        assert sum(bool(limiter.hit("a")) for _ in range(30)) == 10
        limiter = build([FixedWindow(20, 60), FixedWindow(10, 60)], name="other")
        assert sum(bool(limiter.hit("a")) for _ in range(30)) == 10

    def test_they_are_numbered_in_the_order_given(self, build):
        limiter = build([FixedWindow(10, 60), FixedWindow(20, 60)])
        limiter.hit("a", cost=4)
        limiter.update([FixedWindow(10, 60), SlidingLog(9, 60), FixedWindow(20, 60)])
        assert remaining(limiter) == [6, 9, 16]
        limiter.update(FixedWindow(20, 60))
        assert remaining(limiter) == [16]

    def test_named_ones_keep_their_state_in_any_order(self, build):
        one, two = FixedWindow(10, 60, name="one"), FixedWindow(20, 60, name="two")
        limiter = build([one])
        limiter.hit("a", cost=4)
        limiter.update([two, one])
        limiter.hit("a")
        assert remaining(limiter) == [19, 5]
        limiter.update([one, two])
        assert remaining(limiter) == [5, 19]


class TestSideBySide:
    def test_an_old_and_a_new_process_count_as_one(self, build):
        old = build([FixedWindow(5, 60), SlidingLog(9, 60)])
        new = build([TokenBucket(7, 60), FixedWindow(8, 60)])
        charges = [(old, 1), (new, 2), (old, 1), (new, 1)]
        assert all(limiter.hit("a", cost=cost) for limiter, cost in charges)
        assert remaining(old) == [0, 7]
        assert remaining(new) == [4, 3]
        assert not old.hit("a")
        assert new.hit("a", cost=3)
        assert not new.hit("a")

    def test_a_new_process_does_not_prolong_what_only_the_old_one_knows(self, build, at):
        old, new = build(FixedWindow(5, 10)), build(FixedWindow(5, 3600))
        old.hit("a", cost=5)
        for second in range(10):
            at(second)
            assert not old.hit("a")
            new.hit("a")
        at(10)
        assert old.hit("a")


class TestTheCall:
    @pytest.mark.parametrize(
        "wrong", ["many/minute", "", [], None, 5, [FixedWindow(5, 60), "x"], [FixedWindow(1, 1)] * 17]
    )
    def test_limits_that_cannot_be_leave_the_old_ones(self, build, wrong):
        limiter = build(FixedWindow(5, 60))
        limiter.hit("a")
        with pytest.raises((InvalidLimit, TypeError)):
            limiter.update(wrong)
        assert limiter.limits == (FixedWindow(5, 60),)
        assert limiter.hit("a").remaining == 3

    def test_texts_and_tuples_mean_what_the_limiter_was_told(self, build):
        limiter = build("5/minute", algorithm="fixed_window")
        limiter.update("7/minute")
        assert limiter.limits == (FixedWindow(7, 60),)
        limiter.update([(60, 9), "3 per 2 s"])
        assert limiter.limits == (FixedWindow(9, 60), FixedWindow(3, 2))

    def test_it_warns_of_nothing_but_a_limiter_built_beside_does(self, build, caplog):
        limiter = build(FixedWindow(5, 60))
        with caplog.at_level(logging.WARNING, "overlimit"):
            limiter.update(FixedWindow(6, 60))
            alike, other = build(FixedWindow(6, 60)), build(FixedWindow(7, 60))
            alike.hit("a")
            assert caplog.records == []
            other.hit("a")
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "name=" in caplog.text

    def test_decisions_made_before_keep_their_limits(self, build):
        limiter = build(FixedWindow(5, 60))
        decision = limiter.hit("a")
        limiter.update(SlidingLog(9, 60))
        assert decision.limit == FixedWindow(5, 60)
        assert [row.limit for row in decision.details] == [FixedWindow(5, 60)]
