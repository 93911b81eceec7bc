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
    def test_that_is_lowered_refuses_until_usage_has_gone(self, build, change, of, how):
        limiter = build(of(8))
        limiter.hit("a", cost=6)
        limiter = change(how, limiter, of(4))
        assert limiter.peek("a", cost=0).status == "over"
        assert remaining(limiter) == [0]
        assert limiter.hit("a", cost=5).status == "never"
        assert limiter.hit("b", cost=4)

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
