"""Locks: who goes over a limit is out for a while, longer each time; and bans by hand."""

from __future__ import annotations

import math

import pytest

from overlimit import FixedWindow, Penalty, SlidingWindow, TokenBucket, hit_all

ONE = FixedWindow(1, 1)


def violate(limiter, identifier="a"):
    """Go over ``ONE`` and return the refusal that sets the lock."""
    while limiter.hit(identifier):
        pass
    return limiter.peek(identifier, cost=0)


class TestLocking:
    def test_a_violation_locks_to_the_microsecond(self, build, at):
        limiter = build(ONE, penalty=Penalty(30))
        limiter.hit("a")
        at(0.5)
        refused = limiter.hit("a")
        assert (refused.status, refused.remaining, refused.retry_after, refused.reset_after) == (
            "over",
            0,
            30,
            30,
        )
        at(30.499999)
        locked = limiter.hit("a")
        assert (locked.status, locked.retry_after) == ("locked", 0.000001)
        at(30.5)
        assert limiter.hit("a")

    def test_a_wait_that_is_longer_than_the_lock_stays(self, build, at):
        limiter = build(FixedWindow(1, 100), penalty=Penalty(30))
        limiter.hit("a")
        assert limiter.hit("a").retry_after == 100.0
        at(29.999999)
        assert (limiter.hit("a").status, limiter.hit("a").retry_after) == ("locked", 70.000001)
        at(30)
        assert limiter.peek("a").status == "over"
        assert limiter.peek("a", cost=0).status == "ok"

    def test_every_limit_of_the_identifier_is_refused(self, build):
        limiter = build([ONE, SlidingWindow(9, 60), TokenBucket(9, 60)], penalty=Penalty(30))
        violate(limiter)
        rows = limiter.hit("a").details
        assert [(row.allowed, row.remaining, row.retry_after >= 30) for row in rows] == [(False, 0, True)] * 3

    def test_only_who_went_over_is_locked(self, build):
        limiter = build(ONE, penalty=Penalty(30))
        limiter.hit("a")
        assert limiter.hit("b", "a").status == "over"
        assert limiter.peek("b").status == "ok"
        assert limiter.peek("a", cost=0).status == "locked"
        assert limiter.hit("b", "a").status == "locked"
        assert limiter.hit("b")

    @pytest.mark.parametrize(("cost", "status"), [(2, "never"), (10**20, "never"), (0, "ok")])
    def test_what_never_passes_and_what_costs_nothing_locks_nobody(self, build, cost, status):
        limiter = build(ONE, penalty=Penalty(30))
        limiter.hit("a")
        assert limiter.hit("a", cost=cost).status == status
        assert limiter.peek("a", cost=0).status == "ok"

    def test_a_peek_shows_the_lock_that_a_hit_would_set_and_sets_none(self, build):
        limiter = build(ONE, penalty=Penalty(30))
        limiter.hit("a")
        assert limiter.peek("a").retry_after == 30.0
        assert limiter.peek("a", cost=0).status == "ok"

    def test_a_cost_of_0_is_refused_while_locked(self, build):
        limiter = build(ONE, penalty=Penalty(30))
        violate(limiter)
        assert limiter.hit("a", cost=0).status == "locked"

    def test_never_wins_over_locked(self, build):
        limiter = build(ONE, penalty=Penalty(30))
        violate(limiter)
        refused = limiter.hit("a", cost=2)
        assert (refused.status, refused.retry_after) == ("never", math.inf)

    def test_a_reset_lifts_lock_and_level(self, build):
        limiter = build(ONE, penalty=Penalty([2, 50]))
        violate(limiter)
        limiter.reset("a")
        assert violate(limiter).retry_after == 2.0

    def test_hit_all_locks_in_the_policy_that_refused(self, build):
        strict, wide = (
            build(ONE, name="strict", penalty=Penalty(30)),
            build(FixedWindow(9, 60), name="wide", penalty=Penalty(30)),
        )
        assert hit_all([(strict, "a", 1), (wide, "a", 1)])
        assert hit_all([(strict, "a", 1), (wide, "a", 1)]).status == "over"
        assert strict.peek("a", cost=0).status == "locked"
        assert wide.peek("a", cost=0).remaining == 8


class TestLevels:
    def test_each_violation_in_time_takes_the_next_and_the_last_repeats(self, build, clock):
        limiter, locks = build(ONE, penalty=Penalty([2, 4, 8])), []
        for _ in range(5):
            locks.append(violate(limiter).retry_after)
            clock.advance(locks[-1])
        assert locks == [2.0, 4.0, 8.0, 8.0, 8.0]

    @pytest.mark.parametrize(("forget_after", "wait"), [(None, 2), (1e-6, 1e-6), (7.5, 7.5)])
    def test_they_are_forgotten_in_time_and_no_microsecond_earlier(self, build, at, forget_after, wait):
        limiter = build(FixedWindow(1, 60), penalty=Penalty([2, 4], forget_after=forget_after))
        limiter.hit("a")
        limiter.hit("a")
        if wait:
            at(2 + wait - 0.000001)
            limiter.hit("a")
            assert limiter.peek("a", cost=0).retry_after >= 4.0
            assert limiter.peek("a", cost=0).status == "locked"
        limiter.reset("a")
        at(0)
        limiter.hit("a")
        limiter.hit("a")
        at(2 + wait)
        limiter.hit("a")
        at(4 + wait)
        assert limiter.peek("a", cost=0).status == "ok", "it was the first level, of 2 s"

    def test_hits_while_locked_do_not_extend_unless_told_to(self, build, at):
        plain = build(ONE, penalty=Penalty([10, 99]), name="plain")
        extending = build(ONE, penalty=Penalty([10, 99], extend=True), name="extending")
        for limiter in (plain, extending):
            violate(limiter)
        at(9)
        for limiter in (plain, extending):
            limiter.peek("a")
            limiter.hit("a", cost=0)
        assert extending.peek("a", cost=0).retry_after == 1.0, "neither a peek nor a cost of 0 extends"
        assert plain.hit("a").retry_after == 1.0
        assert extending.hit("a").retry_after == 10.0
        at(10)
        assert plain.hit("a")
        at(18.999999)
        assert extending.peek("a", cost=0).status == "locked"
        at(19)
        assert extending.hit("a")

    def test_an_extended_lock_keeps_its_level(self, build, at):
        limiter = build(ONE, penalty=Penalty([2, 4, 8], extend=True))
        violate(limiter)
        at(1)
        assert limiter.hit("a").retry_after == 2.0
        at(3)
        assert violate(limiter).retry_after == 4.0

    def test_a_level_beyond_the_last_is_the_last(self, build, clock):
        limiter = build(ONE, penalty=Penalty([2, 4, 8]))
        for _ in range(3):
            clock.advance(violate(limiter).retry_after)
        shorter = build(ONE, penalty=Penalty([3, 5]))
        assert violate(shorter).retry_after == 5.0

    def test_a_lock_holds_for_limiters_with_another_penalty_or_none(self, build):
        violate(build(ONE, penalty=Penalty(30)))
        for penalty in (None, Penalty(1), Penalty([5, 6], extend=True)):
            refused = build(ONE, penalty=penalty).hit("a", cost=0)
            assert (refused.status, refused.retry_after) == ("locked", 30.0)

    def test_a_clock_that_goes_back_shortens_no_lock(self, build, at):
        limiter = build(ONE, penalty=Penalty(30))
        at(100)
        violate(limiter)
        at(0)
        assert limiter.peek("a", cost=0).retry_after == 30.0
        at(129.999999)
        assert limiter.peek("a", cost=0).status == "locked"
        at(130)
        assert limiter.hit("a")


class TestByHand:
    @pytest.mark.parametrize("penalty", [None, Penalty([2, 4]), Penalty(7, extend=True)])
    def test_it_lasts_to_the_microsecond_and_hits_do_not_extend_it(self, build, at, penalty):
        limiter = build(FixedWindow(5, 3600), penalty=penalty)
        limiter.hit("a", cost=2)
        limiter.lock("a", 30)
        at(29.999999)
        refused = limiter.hit("a")
        assert (refused.status, refused.remaining) == ("locked", 0)
        assert refused.retry_after == 0.000001
        at(30)
        assert limiter.hit("a").remaining == 2

    def test_it_replaces_whatever_was_there(self, build, at):
        limiter = build(FixedWindow(5, 3600))
        for seconds in (30, 10, 0.000001, 50):
            limiter.lock("a", seconds)
            assert limiter.peek("a", cost=0).retry_after == seconds
        limiter.lock("a", 1e-6)
        assert not limiter.hit("a")
        at(1e-6)
        assert limiter.hit("a")

    def test_a_microsecond_lifts_the_lock_of_a_penalty_and_keeps_its_level(self, build, at):
        limiter = build(ONE, penalty=Penalty([2, 4, 8]))
        violate(limiter)
        at(1)
        limiter.lock("a", 1e-6)
        at(1.000001)
        assert limiter.hit("a")
        assert violate(limiter).retry_after == 4.0

    def test_of_one_identifier_leaves_others_free(self, build):
        limiter = build(ONE)
        limiter.lock(b"a", 30)
        assert limiter.peek("a").status == "locked"
        assert limiter.hit("b")
        assert limiter.hit("a", "c").status == "locked"
        assert limiter.hit("c")

    def test_of_a_long_identifier(self, build):
        limiter = build(ONE)
        limiter.lock("x" * 300, 30)
        assert limiter.hit("x" * 300).status == "locked"
        assert limiter.hit("x" * 299)

    @pytest.mark.parametrize("seconds", [-1, -1e-6, math.nan, math.inf, 1e30])
    def test_a_time_that_cannot_be_is_a_value_error(self, build, seconds):
        limiter = build(ONE)
        with pytest.raises(ValueError, match="seconds"):
            limiter.lock("a", seconds)
        assert limiter.hit("a")

    @pytest.mark.parametrize(("identifier", "error"), [("", ValueError), (5, TypeError), (None, TypeError)])
    def test_what_is_no_identifier(self, build, identifier, error):
        with pytest.raises(error):
            build(ONE).lock(identifier, 5)
