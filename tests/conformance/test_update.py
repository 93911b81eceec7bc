"""Limits that change while calls go on: each limit keeps what was used, and nothing else is kept."""

from __future__ import annotations

import logging

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    SlidingLog,
)


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
