"""Limiters under other limits that share their counts: `Limiter.with_limits`."""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import weakref

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    Limiter,
    MemoryStore,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    hit_all,
)
from overlimit.limiter import _MOST_DERIVED

PAIRS = [
    ("3/minute", "5/minute"),
    (FixedWindow(3, 60), FixedWindow(5, 60)),
    (SlidingLog(3, 60), SlidingLog(5, 60)),
    (SlidingWindowCounter(3, 60), SlidingWindowCounter(5, 60)),
    (TokenBucket(3, per=60), TokenBucket(5, per=60)),
    (LeakyBucket(1, per=60, capacity=2), LeakyBucket(1, per=60, capacity=4)),
]


def used(limiter, identifier="a"):
    most = limiter.peek("nobody", cost=0).remaining
    return most - limiter.peek(identifier, cost=0).remaining


class TestOneFamily:
    @pytest.mark.parametrize(("limits", "others"), PAIRS, ids=repr)
    def test_equal_tags_share_their_count(self, build, limits, others):
        small = build(limits)
        large = small.with_limits(others)
        assert [bool(small.hit("a")) for _ in range(4)] == [True, True, True, False]
        assert [bool(large.hit("a")) for _ in range(3)] == [True, True, False]
        assert large.limits == build(others).limits

    def test_without_a_name_the_counts_are_theirs_alone(self):
        store = MemoryStore()
        limiter, other = Limiter("3/minute", store=store), Limiter("3/minute", store=store)
        limiter.with_limits("5/minute").hit("a")
        limiter.with_limits("6/minute").with_limits("7/minute").hit("a")
        assert (used(limiter), used(other)) == (2, 0)

    def test_options_are_those_of_the_first(self, build, clock):
        heard = []
        options = {
            "penalty": Penalty([5]),
            "on_decision": heard.append,
            "on_error": "local",
            "local_share": 0.5,
        }
        limiter = build("3/minute", algorithm="fixed_window", name="n", **options)
        derived = limiter.with_limits("1/minute")
        assert derived.limits == (FixedWindow(1, 60),)
        for option in ("name", "store", "clock", "penalty", "on_error", "local_share", "on_decision"):
            assert getattr(derived, option) == getattr(limiter, option)
        assert [derived.hit("a").status for _ in range(2)] == ["ok", "over"]
        assert limiter.hit("a").status == "locked"
        assert len(heard) == 3

    def test_any_of_them_refunds_exactly_what_another_has_charged(self, build, clock):
        limiter = build("9/minute")
        large = limiter.with_limits("20/minute")
        small = limiter.with_limits("5/minute").with_limits("4/minute")
        decisions = [limiter.hit("a", cost=2), large.hit("a", cost=7)]
        clock.advance(1)
        small.refund(decisions[1])
        assert used(limiter) == 2
        limiter.refund(decisions[1])
        large.refund(decisions[0])
        assert used(limiter) == 0

    def test_resets_and_locks_are_those_of_all(self, build):
        limiter = build("3/minute")
        other = limiter.with_limits("5/minute")
        limiter.hit("a")
        other.lock("a", 10)
        assert limiter.hit("a").status == "locked"
        limiter.unlock("a")
        assert other.hit("a").remaining == 3
        other.reset("a")
        assert used(limiter) == 0
        limiter.hit("a")
        other.reset_all()
        assert used(limiter) == 0

    def test_they_are_not_warned_of(self, build, caplog):
        caplog.set_level(logging.DEBUG, logger="overlimit")
        limiter = build("3/minute", name="quiet")
        derived = [limiter.with_limits(f"{n}/minute") for n in range(1, 5)]
        for each in (*derived, limiter, derived[0].with_limits("9/minute"), pickle_or_copy(derived[1])):
            each.hit("a")
        assert caplog.records == []
        build("8/minute", name="quiet").hit("a")
        assert len(caplog.records) == 1

    def test_a_subclass_makes_its_own_kind(self, store, clock):
        class Mine(Limiter):
            label = "mine"

        limiter = Mine("3/minute", name="n", store=store, clock=clock)
        limiter.label = "changed"
        derived = limiter.with_limits("5/minute")
        assert type(derived) is Mine
        assert derived.label == "changed"


def pickle_or_copy(limiter):
    """Return another limiter like this one, on its store and clock where these pickle."""
    return copy.copy(limiter) if isinstance(limiter.store, MemoryStore) else limiter


class TestKeeping:
    def test_the_same_is_returned_again(self, build):
        limiter = build("3/minute")
        for limits in ("5/minute", FixedWindow(5, 60), [(60, 5), "9/hour"], (60, 5)):
            assert limiter.with_limits(limits) is limiter.with_limits(copy.copy(limits))
        assert limiter.with_limits([(60, 5)]) is limiter.with_limits((60, 5))

    def test_the_least_recently_used_go_and_the_counts_stay(self, build):
        limiter = build("3/minute")
        first, second = limiter.with_limits("10000/minute"), limiter.with_limits("10001/minute")
        first.hit("a")
        for number in range(1, _MOST_DERIVED - 1):
            limiter.with_limits(f"{number}/minute")
        assert limiter.with_limits("10000/minute") is first
        limiter.with_limits("20000/minute")
        assert limiter.with_limits("10000/minute") is first
        again = limiter.with_limits("10001/minute")
        assert again is not second
        assert used(again) == 1

    @pytest.mark.parametrize("wrong", ["5 per fortnite", "", [], (60, True), 5, None], ids=repr)
    def test_wrong_limits_are_refused_each_time(self, build, wrong):
        limiter = build("3/minute")
        limiter.with_limits((60, 1))
        for _ in range(2):
            with pytest.raises(InvalidLimit):
                limiter.with_limits(wrong)


class TestUpdate:
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

    def test_decisions_made_before_keep_their_limits(self, build):
        limiter = build(FixedWindow(5, 60))
        decision = limiter.hit("a")
        limiter.update(SlidingLog(9, 60))
        assert decision.limit == FixedWindow(5, 60)
        assert [row.limit for row in decision.details] == [FixedWindow(5, 60)]

    def test_of_the_first_changes_none_that_was_derived(self, build):
        limiter = build("3/minute")
        derived = limiter.with_limits("5/minute")
        limiter.update("7/minute")
        assert derived.limits == (SlidingWindow(5, 60),)
        assert limiter.with_limits("5/minute") is derived
        derived.hit("a")
        assert limiter.peek("a", cost=0).remaining == 6

    def test_of_a_derived_one_is_refused_because_others_ask_for_it(self, build):
        derived = build("3/minute").with_limits("5/minute")
        with pytest.raises(TypeError, match="with_limits"):
            derived.update("7/minute")
        assert derived.limits == (SlidingWindow(5, 60),)


class TestWithoutAName:
    def test_the_counts_live_as_long_as_any_of_them(self):
        store = MemoryStore()
        derived = Limiter("3/minute", store=store).with_limits("5/minute")
        assert derived.hit("a").remaining == 4
        newest = derived.with_limits("9/minute")
        del derived
        assert newest.hit("a").remaining == 7
        limiter = Limiter("3/minute", store=store)
        limiter.with_limits("5/minute").hit("a")
        limiter._derived.cache_clear()
        assert used(limiter) == 1

    def test_they_end_with_the_last_of_them_and_without_the_garbage_collector(self):
        store = MemoryStore()
        other = Limiter("1000/minute", store=store)
        gc.disable()
        try:
            limiter = Limiter("3/minute", store=store)
            derived = limiter.with_limits("5/minute")
            further = derived.with_limits("6/minute")
            gone = [weakref.ref(each) for each in (limiter, derived, further)]
            for number in range(100):
                further.hit(f"id-{number}")
            del limiter, derived
            assert [ref() is None for ref in gone] == [True, True, False]
            assert used(further, "id-7") == 1
            del further
            assert gone[2]() is None
            for _ in range(2000):
                other.hit("a")
            assert len(store) == 1
        finally:
            gc.enable()


class TestTogether:
    @pytest.mark.parametrize(
        "options", [{"name": "one"}, {"name": None, "store": MemoryStore()}], ids=["name", "none"]
    )
    def test_one_name_with_different_limits_may_not(self, build, options):
        limiter = build("3/minute", **options)
        with pytest.raises(ValueError, match="different limits"):
            hit_all([(limiter.with_limits("5/minute"), "a"), (limiter.with_limits("6/minute"), "b")])
        with pytest.raises(ValueError, match="twice"):
            hit_all([(limiter.with_limits("5/minute"), "a"), (limiter.with_limits([(60, 5)]), "a")])
        assert used(limiter) == 0


class TestCopies:
    def test_one_pickles_with_its_limits_and_its_name(self, redis_store):
        derived = Limiter("3/minute", name="n", store=redis_store).with_limits("5/minute")
        derived.hit("a")
        again = pickle.loads(pickle.dumps(derived))
        assert again.limits == derived.limits
        assert again.hit("a").remaining == 3
        assert pickle.loads(pickle.dumps(again)).with_limits("9/minute").hit("a").remaining == 6

    def test_without_a_name_a_copy_counts_anew(self):
        derived = Limiter("3/minute").with_limits("5/minute")
        derived.hit("a")
        assert copy.deepcopy(derived).hit("a").remaining == 4


def test_a_failing_store_is_answered_for_by_the_share_of_the_other_limits():
    nowhere = RedisStore("unix:///nowhere/redis.sock")
    limiter = Limiter("2/minute", name="n", store=nowhere, on_error="local", local_share=0.5)
    derived = limiter.with_limits("6/minute")
    assert [derived.hit("a").remaining for _ in range(3)] == [2, 1, 0]
    assert not limiter.hit("a")
    assert derived.hit("a").source == "local"
