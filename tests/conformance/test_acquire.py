"""Waiting for a limit: until the exact instant, in the order of coming, and never in vain."""

from __future__ import annotations

import itertools
import math
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    waiting,
)

PATIENCE = 20.0
A_MOMENT = 0.05  # how long something is watched that should not happen
ONE_PER_10_S = [
    FixedWindow(1, 10),
    SlidingWindow(1, 10),
    SlidingLog(1, 10),
    SlidingWindowCounter(1, 10),
    TokenBucket(1, per=10),
    TokenBucket(1, per=10, refill="interval"),
    LeakyBucket(1, per=10, capacity=0),
]
EACH = pytest.mark.parametrize("limit", ONE_PER_10_S, ids=repr)


def queued(limiter):
    """Return how many wait for limiters on this one's store."""
    return len(waiting._waiting.queues.get(limiter.store, ()))


def until(condition):
    """Come back as soon as a condition holds; fail when it doesn't for long."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.001)


def still_waits(caller):
    return not wait([caller], timeout=A_MOMENT).done


@pytest.fixture
def call(clock):
    """Return a function that calls another in a thread; who still waits at the end is let go by the clock."""
    with ThreadPoolExecutor(64) as pool:
        yield pool.submit
        clock.advance(10**8)


@pytest.fixture
def enqueue(call):
    """Return a function that lets another thread acquire, and comes back when that has joined the queue."""

    def start(limiter, *identifiers, **options):
        before = queued(limiter)
        caller = call(limiter.acquire, *identifiers, **options)
        until(lambda: queued(limiter) == before + 1)
        return caller

    return start


def seconds_through_queue(rate, capacity, used, cost):
    """Count the ticks of a leaky bucket until a caller is let in, and then until it's its turn."""
    ticks = 0
    while used + cost > rate + capacity:
        used, ticks = max(0, used - rate), ticks + 1
    return ticks + (used + cost - 1) // rate


class Like:
    """Equals a Decision of one status."""

    def __init__(self, status):
        self._status = status

    def __eq__(self, decision):
        return decision.status == self._status

    def __repr__(self):
        return f"<Decision {self._status}>"

    __hash__ = None


LIKE_OK, LIKE_OVER = Like("ok"), Like("over")


class Told:
    """What ``on_decision`` was told, in order."""

    def __init__(self):
        self._decisions = queue.Queue()

    def __call__(self, decision):
        self._decisions.put(decision)

    def next(self):
        return self._decisions.get(timeout=PATIENCE)

    def rest(self):
        return [self._decisions.get_nowait() for _ in range(self._decisions.qsize())]


@pytest.fixture
def told():
    return Told()


class TestUntilTheInstant:
    def test_what_is_allowed_at_once_does_not_wait(self, build, told):
        decision = build(FixedWindow(3, 60), on_decision=told).acquire("a", "b", cost=2)
        assert (decision.allowed, decision.remaining, decision.cost) == (True, 1, 2)
        assert [bool(each) for each in told.rest()] == [True]

    @EACH
    def test_who_has_to_wait_is_admitted_at_the_instant_and_no_microsecond_earlier(
        self, build, clock, at, call, told, limit
    ):
        limiter = build(limit, on_decision=told)
        start = clock.now()
        limiter.hit("a")
        told.next()
        caller = call(limiter.acquire, "a", timeout=100)
        refusal = told.next()
        assert not refusal
        at(round(refusal.retry_after * 1e6 - 1) / 1e6)
        assert still_waits(caller)
        at(refusal.retry_after)
        decision = caller.result(PATIENCE)
        assert decision
        assert decision.time == pytest.approx(start + refusal.retry_after, abs=1e-9)
        assert [bool(each) for each in told.rest()] == [True], "nobody asks before the time has come"
        assert queued(limiter) == 0

    def test_a_clock_that_moves_in_small_steps_wakes_nobody_too_early(self, build, clock, call, told):
        limiter = build(FixedWindow(1, 10), on_decision=told)
        limiter.hit("a")
        caller = call(limiter.acquire, "a", timeout=100)
        told.next()
        assert not told.next()
        for _ in range(99):
            clock.advance(0.1)
        assert still_waits(caller)
        clock.advance(0.1)
        assert caller.result(PATIENCE)
        assert [bool(each) for each in told.rest()] == [True]

    @pytest.mark.parametrize("repeat", range(20))
    def test_a_clock_that_moves_while_it_is_asked_makes_nobody_sleep_too_long(
        self, build, clock, call, repeat
    ):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        caller = call(limiter.acquire, "a", timeout=100)
        clock.advance(10)
        assert caller.result(PATIENCE)

    def test_a_clock_given_as_a_bound_method_wakes_too(self, build, clock, at, call, told):
        limiter = build(FixedWindow(1, 10), clock=clock.now, on_decision=told)
        limiter.hit("a")
        caller = call(limiter.acquire, "a", timeout=100)
        told.next()
        told.next()
        at(10)
        assert caller.result(A_MOMENT * 20)

    def test_the_longest_of_several_waits_counts(self, build, at, call, told):
        limiter = build([FixedWindow(1, 5), SlidingLog(1, 9), TokenBucket(1, per=7)], on_decision=told)
        limiter.hit("a")
        caller = call(limiter.acquire, "a", "b", timeout=100)
        told.next()
        assert told.next().retry_after == 9.0
        at(8.999999)
        assert still_waits(caller)
        at(9)
        assert caller.result(PATIENCE)
        assert limiter.peek("b", cost=0).remaining == 0

    def test_who_is_overtaken_by_a_hit_waits_on(self, build, at, enqueue):
        limiter = build(TokenBucket(1, per=1, burst=2))
        limiter.hit("a", cost=2)
        caller = enqueue(limiter, "a", cost=2, timeout=100)
        at(1)
        assert limiter.hit("a")
        at(2.999999)
        assert still_waits(caller)
        at(3)
        assert caller.result(PATIENCE)

    def test_by_real_time_it_waits_as_long_as_it_must(self, store):
        limiter = Limiter(SlidingLog(1, 0.2), store=store)
        begun = time.monotonic()
        decisions = [limiter.acquire("a", timeout=PATIENCE) for _ in range(4)]
        assert 0.6 <= time.monotonic() - begun < 5
        assert all(later.time - earlier.time >= 0.2 for earlier, later in itertools.pairwise(decisions))

    def test_by_a_clock_that_is_a_function_too(self, store):
        limiter = Limiter(SlidingLog(1, 0.2), store=store, clock=time.time)
        begun = time.monotonic()
        assert all(limiter.acquire("a", timeout=PATIENCE) for _ in range(3))
        assert 0.4 <= time.monotonic() - begun < 5

    def test_others_go_on_meanwhile(self, store):
        limiter, counted, over = Limiter(FixedWindow(1, 0.5), store=store), [0], threading.Event()

        def count():
            while not over.is_set():
                counted[0] += 1

        with ThreadPoolExecutor(1) as pool:
            limiter.hit("a")
            pool.submit(count)
            assert limiter.acquire("a", timeout=PATIENCE)
            over.set()
        assert counted[0] > 10_000


class TestDeadline:
    @EACH
    def test_a_timeout_one_microsecond_too_short_is_refused_at_once_and_charges_nothing(
        self, build, told, limit
    ):
        limiter = build(limit, on_decision=told)
        limiter.hit("a")
        before = repr(limiter.peek("a", "b", cost=0).details)
        retry_us = round(limiter.peek("a").retry_after * 1e6)
        refusal = limiter.acquire("a", "b", timeout=(retry_us - 1) / 1e6)
        assert (refusal.status, refusal.retry_after) == ("over", retry_us / 1e6)
        assert repr(limiter.peek("a", "b", cost=0).details) == before
        assert len(told.rest()) == 2

    @EACH
    def test_a_timeout_that_is_just_enough_is_enough(self, build, at, enqueue, limit):
        limiter = build(limit)
        limiter.hit("a")
        retry = limiter.peek("a").retry_after
        caller = enqueue(limiter, "a", timeout=retry)
        at(retry)
        assert caller.result(PATIENCE)

    def test_0_asks_once(self, build):
        limiter = build(FixedWindow(1, 60))
        assert limiter.acquire("a", timeout=0)
        assert limiter.acquire("a", timeout=0).status == "over"
        assert limiter.acquire("a", timeout=0.0, cost=0)

    def test_it_is_5_seconds_by_default(self, build, at, enqueue):
        limiter = build(FixedWindow(1, 5))
        limiter.hit("a")
        caller = enqueue(limiter, "a")
        at(5)
        assert caller.result(PATIENCE)
        longer = build(FixedWindow(1, 5.000001), name="longer")
        longer.hit("a")
        assert not longer.acquire("a")

    @pytest.mark.parametrize("timeout", [0, 5.0, math.inf, 10**400])
    def test_what_can_never_pass_is_refused_at_once(self, build, timeout):
        limiter = build([FixedWindow(3, 60), SlidingWindow(5, 60)])
        refusal = limiter.acquire("a", cost=4, timeout=timeout)
        assert (refusal.status, refusal.retry_after) == ("never", math.inf)

    def test_infinity_waits_as_long_as_it_takes(self, build, clock, enqueue):
        limiter = build(FixedWindow(1, 86_400 * 365))
        limiter.hit("a")
        callers = [enqueue(limiter, "a", timeout=math.inf), enqueue(limiter, "a", timeout=10**400)]
        clock.advance(86_400 * 365)
        assert callers[0].result(PATIENCE)
        clock.advance(86_400 * 365)
        assert callers[1].result(PATIENCE)

    def test_infinity_outlasts_a_clock_that_goes_back_by_decades(self, build, clock, enqueue):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        caller = enqueue(limiter, "a", timeout=math.inf)
        clock.set(0)
        assert still_waits(caller)
        limiter.reset("a")
        assert caller.result(PATIENCE)

    @pytest.mark.parametrize("timeout", [-1, -1e-9, -math.inf, math.nan, -(10**400)])
    def test_a_negative_timeout_or_none_at_all_is_a_value_error(self, build, told, timeout):
        limiter = build(FixedWindow(1, 60), on_decision=told)
        with pytest.raises(ValueError, match="timeout"):
            limiter.acquire("a", timeout=timeout)
        assert told.rest() == []
        assert limiter.peek("a", cost=0).remaining == 1

    @pytest.mark.parametrize("timeout", [True, False, None, "5", [5]])
    def test_what_is_no_number_is_a_type_error(self, build, timeout):
        limiter = build(FixedWindow(1, 60))
        with pytest.raises(TypeError, match="timeout"):
            limiter.acquire("a", timeout=timeout)
        assert limiter.peek("a", cost=0).remaining == 1

    @pytest.mark.parametrize(
        ("identifiers", "cost", "error"),
        [
            ((), 1, ValueError),
            (("",), 1, ValueError),
            ((5,), 1, TypeError),
            (([],), 1, TypeError),
            (("a",), -1, ValueError),
            (("a",), 1.5, TypeError),
            (("a",), True, TypeError),
        ],
    )
    def test_other_wrong_arguments_are_the_errors_of_hit_and_leave_no_trace(
        self, build, identifiers, cost, error
    ):
        limiter = build(FixedWindow(1, 60))
        with pytest.raises(error):
            limiter.acquire(*identifiers, cost=cost)
        assert queued(limiter) == 0
        assert limiter.peek("a", cost=0).remaining == 1

    @pytest.mark.parametrize("reading", [math.nan, math.inf, -1.0, 1e30])
    def test_a_clock_that_reads_nonsense_is_named(self, build, reading):
        with pytest.raises(ValueError, match="clock"):
            build(FixedWindow(1, 60), clock=lambda: reading).acquire("a")

    def test_who_is_overtaken_so_that_it_cannot_be_met_is_refused_then(self, build, at, enqueue):
        limiter = build(TokenBucket(1, per=1, burst=2))
        limiter.hit("a", cost=2)
        caller = enqueue(limiter, "a", cost=2, timeout=2.5)
        at(1)
        assert limiter.hit("a")
        at(2)
        assert caller.result(PATIENCE).status == "over"
        assert limiter.peek("a", cost=0).remaining == 1

    def test_a_clock_that_goes_back_shortens_nothing(self, build, at, call, told):
        limiter = build(FixedWindow(1, 10), on_decision=told)
        at(100)
        limiter.hit("a")
        caller = call(limiter.acquire, "a", timeout=50)
        told.next()
        told.next()
        at(50)
        assert still_waits(caller)
        at(109.999999)
        assert still_waits(caller)
        at(110)
        assert caller.result(PATIENCE)


class TestDelay:
    """A leaky bucket: one per second, five wait."""

    @pytest.fixture
    def limiter(self, build, told):
        return build(LeakyBucket(1, per=1, capacity=5), on_decision=told)

    def test_is_slept_to_the_microsecond(self, limiter, clock, at, call, told):
        limiter.hit("a", cost=3)
        told.next()
        caller = call(lambda: (limiter.acquire("a", timeout=60), clock.now()))
        assert told.next().delay == 3.0
        at(2.999999)
        assert still_waits(caller)
        at(3)
        decision, returned = caller.result(PATIENCE)
        assert (decision.allowed, decision.delay, decision.time) == (True, 3.0, 1_700_000_000)
        assert returned == 1_700_000_003
        assert told.rest() == []

    def test_who_sleeps_it_is_out_of_the_queue(self, limiter, at, call, told):
        limiter.hit("a")
        told.next()
        callers = [call(limiter.acquire, "a", timeout=60) for _ in range(3)]
        assert sorted(told.next().delay for _ in range(3)) == [1.0, 2.0, 3.0]
        until(lambda: queued(limiter) == 0)
        for second in (1, 2, 3):
            at(second - 0.000001)
            assert sum(map(still_waits, callers)) == 4 - second
            at(second)
            until(lambda done=second: sum(caller.done() for caller in callers) == done)

    def test_beyond_the_deadline_is_refused_at_once_and_charges_nothing(self, limiter, at, call):
        limiter.hit("a", cost=3)
        before = repr(limiter.peek("a", cost=0).details)
        refusal = limiter.acquire("a", timeout=2.999999)
        assert (refusal.status, refusal.delay) == ("over", 0.0)
        assert repr(limiter.peek("a", cost=0).details) == before
        caller = call(limiter.acquire, "a", timeout=3)
        at(3)
        assert caller.result(PATIENCE).delay == 3.0

    def test_after_a_full_queue_is_foreseen(self, limiter, at, enqueue):
        limiter.hit("a", cost=6)
        assert limiter.acquire("a", timeout=5.999999).status == "over"
        caller = enqueue(limiter, "a", timeout=6)
        at(1)
        until(lambda: queued(limiter) == 0)
        assert limiter.peek("a").status == "over"
        at(5.999999)
        assert still_waits(caller)
        at(6)
        assert caller.result(PATIENCE).delay == 5.0

    def test_of_who_stands_behind_others_is_foreseen(self, limiter, at, enqueue):
        limiter.hit("a", cost=6)
        ahead = enqueue(limiter, "a", cost=2, timeout=60)
        assert limiter.acquire("a", timeout=5.999999).status == "over"
        at(2)
        until(lambda: queued(limiter) == 0)
        at(7)
        assert ahead.result(PATIENCE)

    def test_does_not_deceive_who_can_still_go(self, limiter, at, enqueue, told):
        limiter.hit("a", cost=6)
        told.next()
        caller = enqueue(limiter, "a", timeout=6)
        assert told.next().status == "over"
        limiter.reset("a")
        assert caller.result(PATIENCE).delay == 0.0

    @pytest.mark.parametrize("rate", [1, 2, 3])
    @pytest.mark.parametrize("capacity", [0, 1, 4, 5])
    def test_is_foreseen_exactly_whatever_the_queue(self, build, clock, at, call, told, rate, capacity):
        most = rate + capacity
        for used, cost in itertools.product(range(1, most + 1), repeat=2):
            at(0)
            bucket = LeakyBucket(rate, per=1, capacity=capacity)
            limiter = build(bucket, name=f"n{used}.{cost}", on_decision=told)
            limiter.hit("a", cost=used)
            needed = seconds_through_queue(rate, capacity, used, cost)

            def attempt(timeout, limiter=limiter, cost=cost):
                return limiter.acquire("a", cost=cost, timeout=timeout), clock.now()

            if needed:
                assert attempt(needed - 0.000001) == (LIKE_OVER, 1_700_000_000)
            told.rest()
            caller = call(attempt, needed)
            while not (decision := told.next()):
                clock.advance(decision.retry_after)
            if decision.delay > 0:
                at(needed - 0.000001)
                assert not wait([caller], timeout=0.001).done
                at(needed)
            assert caller.result(PATIENCE) == (LIKE_OK, 1_700_000_000 + needed)


class TestOrder:
    def test_the_first_come_is_the_first_served(self, build, clock, enqueue):
        limiter, served = build(TokenBucket(1, per=1)), []
        limiter.hit("a")
        callers = [enqueue(limiter, "a", timeout=60) for _ in range(8)]
        for caller in callers:
            clock.advance(1)
            served.append(caller.result(PATIENCE).time)
        assert served == [1_700_000_001 + i for i in range(8)]
        assert queued(limiter) == 0

    def test_who_asks_for_less_does_not_overtake_who_asked_before(self, build, at, enqueue):
        limiter = build(TokenBucket(1, per=1, burst=5))
        limiter.hit("a", cost=5)
        large, small = enqueue(limiter, "a", cost=5, timeout=60), enqueue(limiter, "a", timeout=60)
        at(4.999999)
        assert still_waits(large)
        assert still_waits(small)
        at(5)
        assert large.result(PATIENCE)
        assert still_waits(small)
        at(6)
        assert small.result(PATIENCE)

    def test_others_overtake(self, build, enqueue):
        limiter = build(FixedWindow(1, 60))
        limiter.hit("a")
        caller = enqueue(limiter, "a", timeout=60)
        assert limiter.acquire("b", timeout=0)
        assert not caller.done()

    def test_hits_and_other_limiters_overtake(self, build, at, enqueue):
        limiter, other = build(TokenBucket(1, per=1, burst=5)), build(TokenBucket(1, per=1, burst=5))
        limiter.hit("a", cost=5)
        caller = enqueue(limiter, "a", cost=5, timeout=60)
        at(2)
        assert limiter.hit("a")
        assert other.acquire("a", timeout=0)
        at(6.999999)
        assert still_waits(caller)
        at(7)
        assert caller.result(PATIENCE)

    def test_one_identifier_in_common_is_enough(self, build, at, enqueue):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("x")
        callers = [enqueue(limiter, *ids, timeout=60) for ids in (("x",), ("x", b"y"), ("y", "z"))]
        at(9)
        assert all(map(still_waits, callers)), "z is behind y, which is behind x"
        at(10)
        assert callers[0].result(PATIENCE)
        assert still_waits(callers[2])
        at(20)
        assert callers[1].result(PATIENCE)
        assert still_waits(callers[2])
        at(30)
        assert callers[2].result(PATIENCE)

    def test_a_place_behind_another_is_no_reason_to_wait_in_vain(self, build, enqueue):
        limiter = build(TokenBucket(1, per=1, burst=5))
        limiter.hit("a", cost=5)
        enqueue(limiter, "a", timeout=60)
        assert limiter.acquire("a", cost=4, timeout=3.999999).status == "over"
        assert limiter.acquire("a", cost=6, timeout=math.inf).status == "never"

    def test_who_learns_that_it_waits_in_vain_leaves_at_once(self, build, at, enqueue):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (60, 60, 15)]
        at(10)
        assert callers[0].result(PATIENCE)
        assert callers[2].result(PATIENCE).status == "over"
        assert still_waits(callers[1])

    def test_who_gives_up_lets_the_next_one_in(self, build, at, enqueue):
        limiter = build(TokenBucket(1, per=1, burst=2))
        limiter.hit("a", cost=2)
        first, second = enqueue(limiter, "a", cost=2, timeout=2.5), enqueue(limiter, "a", timeout=60)
        at(1)
        assert limiter.hit("a")
        at(2)
        assert first.result(PATIENCE).status == "over"
        assert second.result(PATIENCE).time == 1_700_000_002

    def test_an_error_of_one_lets_the_next_one_in(self, build, at, enqueue):
        fails = iter([False, False, True, False, False])

        def tell(decision):
            if next(fails):
                raise KeyboardInterrupt

        limiter = build(FixedWindow(1, 10), on_decision=tell)
        limiter.hit("a")
        first, second = enqueue(limiter, "a", timeout=60), enqueue(limiter, "a", timeout=60)
        at(10)
        with pytest.raises(KeyboardInterrupt):
            first.result(PATIENCE)
        at(20)
        assert second.result(PATIENCE)
        assert queued(limiter) == 0

    def test_a_crowd_is_served_completely_and_no_faster_than_the_limit(self, store):
        limiter = Limiter(SlidingLog(5, 0.1), store=store)
        with ThreadPoolExecutor(25) as pool:
            decisions = list(pool.map(lambda _: limiter.acquire("a", timeout=PATIENCE), range(25)))
        times = sorted(decision.time for decision in decisions)
        assert all(decisions)
        assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[5:], strict=False))
        assert queued(limiter) == 0


class TestWaking:
    @pytest.fixture
    def other(self, build):
        return build(FixedWindow(1, 3600), penalty=Penalty(1))

    @pytest.fixture
    def caller(self, build, other, enqueue, told):
        other.hit("a")
        caller = enqueue(build(FixedWindow(1, 3600), on_decision=told), "a", timeout=7200)
        assert not told.next()
        return caller

    def test_a_refund_lets_in_at_once(self, build, enqueue):
        limiter = build(FixedWindow(1, 3600))
        charged = limiter.hit("a")
        caller = enqueue(limiter, "a", timeout=7200)
        build(FixedWindow(1, 3600)).refund(charged)
        assert caller.result(PATIENCE).time == 1_700_000_000

    def test_a_reset_lets_in_at_once(self, other, caller):
        other.reset("a")
        assert caller.result(PATIENCE).time == 1_700_000_000

    def test_a_reset_of_all_lets_in_at_once(self, other, caller):
        other.reset_all()
        assert caller.result(PATIENCE).time == 1_700_000_000

    def test_a_lock_that_is_lifted_lets_in_at_once(self, build, enqueue):
        limiter = build(FixedWindow(1, 3600))
        limiter.lock("a", 3000)
        caller = enqueue(limiter, "a", timeout=7200)
        assert still_waits(caller)
        limiter.lock("a", 1e-6)
        limiter.clock.advance(1e-6)
        assert caller.result(PATIENCE).time == 1_700_000_000.000001

    def test_a_raised_limit_lets_in_at_once(self, build, enqueue):
        limiter = build(FixedWindow(1, 3600))
        limiter.hit("a")
        caller = enqueue(limiter, "a", timeout=7200)
        limiter.update(FixedWindow(2, 3600))
        assert caller.result(PATIENCE).time == 1_700_000_000

    def test_what_changes_nothing_lets_nobody_in(self, other, caller, clock):
        other.reset("b")
        other.lock("b", 5)
        clock.advance(3599.999999)
        assert still_waits(caller)
        clock.advance(0.000001)
        assert caller.result(PATIENCE)

    def test_a_lock_by_hand_is_waited_for(self, build, at, enqueue):
        limiter = build(FixedWindow(1, 3600))
        limiter.lock("a", 20)
        assert limiter.acquire("a", timeout=19.999999).status == "locked"
        caller = enqueue(limiter, "a", timeout=20)
        at(19.999999)
        assert still_waits(caller)
        at(20)
        assert caller.result(PATIENCE)


class TestPenalties:
    """Waiting is no violation."""

    @pytest.fixture
    def limiter(self, build):
        return build(FixedWindow(1, 10), penalty=Penalty([600], extend=True))

    def test_waiting_sets_no_lock(self, limiter, at, enqueue):
        limiter.hit("a")
        assert limiter.acquire("a", timeout=9.999999).status == "over"
        assert limiter.peek("a", cost=0).status == "ok"
        caller = enqueue(limiter, "a", timeout=10)
        at(10)
        assert caller.result(PATIENCE)
        assert limiter.peek("a", cost=0).status == "ok"

    def test_nor_does_waiting_behind_another(self, limiter, at, enqueue):
        limiter.hit("a")
        callers = [enqueue(limiter, "a", timeout=timeout) for timeout in (30, 30)]
        at(10)
        assert callers[0].result(PATIENCE)
        assert still_waits(callers[1]), "a lock of 600 s that no hit has set is nothing to go by"
        at(20)
        assert callers[1].result(PATIENCE)

    def test_waiting_extends_no_lock(self, limiter, at, enqueue):
        limiter.hit("a")
        assert limiter.hit("a").retry_after == 600.0
        at(100)
        callers = [enqueue(limiter, "a", timeout=600) for _ in range(2)]
        assert limiter.peek("a", cost=0).retry_after == 500.0
        at(600)
        assert callers[0].result(PATIENCE)
        at(610)
        assert callers[1].result(PATIENCE)


class TestOnDecision:
    def test_is_told_of_each_hit_and_of_nothing_else(self, build, at, enqueue, told):
        limiter = build(FixedWindow(1, 10), on_decision=told)
        limiter.hit("a")
        callers = [enqueue(limiter, "a", timeout=60) for _ in range(2)]
        at(10)
        first = callers[0].result(PATIENCE)
        at(20)
        second = callers[1].result(PATIENCE)
        decisions = told.rest()
        assert [decision for decision in decisions if decision][1:] == [first, second]
        assert (
            4 <= len(decisions) <= 5
        )  # the hit, a refusal and an admission, perhaps a refusal, an admission

    def test_what_it_raises_is_logged_and_waiting_goes_on(self, build, at, enqueue, caplog):
        def fail(decision):
            raise RuntimeError("no ear for decisions")

        limiter = build(FixedWindow(1, 10), on_decision=fail)
        limiter.hit("a")
        caller = enqueue(limiter, "a", timeout=60)
        at(10)
        assert caller.result(PATIENCE)
        assert len(caplog.records) == 3


def run(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["memory", "redis"])
def url(request, redis_server, prefix):
    """The store of a child process."""
    return (
        "memory://" if request.param == "memory" else f"{redis_server.unix_url()}&timeout=10&prefix={prefix}"
    )


INTERRUPTED = """
    import signal, sys, threading, time, traceback
    from overlimit import LeakyBucket, Limiter, waiting

    url, capacity = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limiter = Limiter(LeakyBucket(1, per=3600, capacity=int(capacity)), store=url)
    limiter.hit("a")
    main = threading.main_thread().ident

    def is_asleep():
        names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
        return names[0] == "wait" and "acquire" in names

    def report():
        while not is_asleep():
            time.sleep(0.001)
        print("asleep", flush=True)

    threading.Thread(target=report, daemon=True).start()
    try:
        limiter.acquire("a", timeout=10_000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        left = limiter.peek("a", cost=0).remaining
        waiters = sum(map(len, waiting._waiting.queues.values()))
        print(left, waiters, bool(limiter.acquire("b", timeout=0)))
"""


@pytest.mark.parametrize(("capacity", "left"), [("0", 0), ("5", 5)], ids=["in the queue", "in its delay"])
def test_ctrl_c_interrupts_gives_back_the_charge_and_leaves_the_queue(url, capacity, left):
    with run(INTERRUPTED, url, capacity) as child:
        try:
            assert child.stdout.readline() == "asleep\n", child.stderr.read()
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.monotonic() - sent < 0.5
            assert child.stdout.readline() == f"{left} 0 True\n"
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()


FORKED = """
    import os, signal, sys, threading, time, warnings
    from overlimit import FixedWindow, Limiter, ManualClock, waiting

    warnings.simplefilter("ignore")
    clock = ManualClock(1_700_000_000)
    limiter = Limiter(FixedWindow(1, 10), store=sys.argv[1], clock=clock)
    limiter.hit("a")
    acquire = lambda: limiter.acquire("a", timeout=100)
    waiters = [threading.Thread(target=acquire) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    while len(clock._watchers) < 3:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        clock.advance(1000)
        limiter.reset("a")
        assert limiter.acquire("a", timeout=5), "there is nobody before it"
        assert not limiter.acquire("a", timeout=5)
        limiter.reset("a")
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    clock.advance(1000)
    for waiter in waiters:
        waiter.join(20)
    print([waiter.is_alive() for waiter in waiters])
"""


def test_a_forked_child_waits_behind_nobody_and_moves_its_own_clock(url):
    with run(FORKED, url) as child:
        try:
            output, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    warned = "which a forked process does not share" in errors
    assert output == "7\n[False, False, False]\n", errors
    assert warned == url.startswith("memory"), errors
