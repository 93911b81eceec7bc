"""Limiters under other limits that share their counts: `Limiter.with_limits`."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import threading
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
from servers.patience import PATIENCE, eventually

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

    def test_other_periods_have_counts_of_their_own(self, build):
        limiter = build("3/minute")
        limiter.hit("a")
        assert limiter.with_limits("3/hour").peek("a", cost=0).remaining == 3

    def test_with_a_name_it_is_that_of_every_limiter_of_the_name(self, build):
        build("3/minute", name="one").with_limits("5/minute").hit("a")
        assert used(build("7/minute", name="one")) == 1

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

    @pytest.mark.parametrize(("limits", "others"), PAIRS, ids=repr)
    def test_a_refund_at_once_gives_back_all(self, build, limits, others):
        limiter = build(limits)
        decision = limiter.with_limits(others).hit("a", cost=2)
        limiter.hit("a")
        limiter.refund(decision)
        assert used(limiter) == 1

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

    def test_each_has_statistics_of_its_own(self, build):
        limiter = build("3/minute")
        limiter.with_limits("5/minute").hit("a")
        assert limiter.stats()["calls"] == 0
        assert limiter.with_limits("5/minute").stats()["calls"] == 1

    def test_they_are_not_warned_of(self, build, caplog):
        caplog.set_level(logging.DEBUG, logger="overlimit")
        limiter = build("3/minute", name="quiet")
        derived = [limiter.with_limits(f"{n}/minute") for n in range(1, 5)]
        for each in (*derived, limiter, derived[0].with_limits("9/minute"), pickle_or_copy(derived[1])):
            each.hit("a")
        assert caplog.records == []
        build("8/minute", name="quiet").hit("a")
        assert len(caplog.records) == 1

    def test_one_is_no_different_from_another_of_its_limits(self, build):
        limiter = build("3/minute", name="n")
        derived = limiter.with_limits("5/minute")
        assert repr(derived) == repr(build("5/minute", name="n"))

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

    def test_a_share_too_small_for_the_other_limits_is_refused(self, store):
        limiter = Limiter("3/minute", name="n", store=store, on_error="local", local_share=1e-9)
        with pytest.raises(InvalidLimit, match="local_share"):
            limiter.with_limits(TokenBucket(1, per=2**28))

    def test_threads_get_limiters_of_one_family(self, build):
        limiter, made = build("1000/minute"), []
        barrier = threading.Barrier(8)

        def ask():
            barrier.wait()
            for number in range(50):
                made.append(limiter.with_limits(f"{1000 + number}/minute"))
                made[-1].hit("a")

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert used(limiter) == 400


class TestUpdate:
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
    def test_other_names_may_be_combined(self, build):
        one, other = build("3/minute", name="one"), build("3/minute", name="other")
        decision = hit_all([(one.with_limits("5/minute"), "a"), (other.with_limits("7/minute"), "a", 2)])
        assert [detail.remaining for detail in decision.details] == [4, 5]
        one.refund(decision)
        assert (used(one), used(other)) == (0, 0)

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

    def test_one_made_in_a_forked_child_warns_of_memory_that_is_not_shared(self):
        limiter = Limiter("3/minute", store=MemoryStore())
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            logging.getLogger("overlimit").addHandler(logging.StreamHandler(os.fdopen(write, "w")))
            os._exit(0 if limiter.with_limits("5/minute").hit("a") else 1)
        os.close(write)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with os.fdopen(read) as said:
            assert "forked process does not share" in said.read()


def test_those_who_wait_are_served_in_the_order_they_came(clock):
    limiter = Limiter(FixedWindow(1, 10), store=MemoryStore(), clock=clock)
    other = limiter.with_limits(FixedWindow(2, 10))
    other.hit("a", cost=2)
    order = []

    def wait(one):
        order.append((one, one.acquire("a", cost=one.limits[0].limit, timeout=None).time))

    waiting = []
    for number, one in enumerate([limiter, other, limiter], 1):
        waiting.append(threading.Thread(target=wait, args=(one,)))
        waiting[-1].start()
        eventually(lambda number=number: queue_length(limiter) == number, within=PATIENCE)
    while len(order) < 3:
        clock.advance(1)
        eventually(lambda: True)
    for thread in waiting:
        thread.join(PATIENCE)
    assert [one for one, _ in sorted(order, key=lambda each: each[1])] == [limiter, other, limiter]


def queue_length(limiter):
    from overlimit import waiting

    return len(waiting.wait_queues().by_family.get(limiter._family, ()))


def test_a_failing_store_is_answered_for_by_the_share_of_the_other_limits():
    nowhere = RedisStore("unix:///nowhere/redis.sock")
    limiter = Limiter("2/minute", name="n", store=nowhere, on_error="local", local_share=0.5)
    derived = limiter.with_limits("6/minute")
    assert [derived.hit("a").remaining for _ in range(3)] == [2, 1, 0]
    assert not limiter.hit("a")
    assert derived.hit("a").source == "local"
