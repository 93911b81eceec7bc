"""Old and new code side by side: each limit keeps its state or begins anew, and no more than that passes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from textwrap import dedent

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limit,
    Limiter,
    MemoryStore,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

Change = tuple[Limit, Limit]  # before and after; each admits as much as its quota at once

KEEPS: dict[str, Change] = {
    "the number of a fixed window": (FixedWindow(3, 60), FixedWindow(5, 60)),
    "the number of an aligned window": (FixedWindow(3, 60, start="epoch"), FixedWindow(5, 60, start="epoch")),
    "the number of a calendar's window": (
        FixedWindow(3, "day", start="calendar", timezone="Asia/Kolkata"),
        FixedWindow(5, "day", start="calendar", timezone="Asia/Kolkata"),
    ),
    "the number of a sliding window": (SlidingWindow(3, 60), SlidingWindow(5, 60)),
    "a precision written out": (SlidingWindow(3, 60), SlidingWindow(5, 60, precision=1.2)),
    "the number of a log": (SlidingLog(3, 60), SlidingLog(5, 60)),
    "the number of a counter": (SlidingWindowCounter(3, 60), SlidingWindowCounter(5, 60)),
    "a burst": (TokenBucket(1, 60, burst=3), TokenBucket(1, 60, burst=5)),
    "a rate": (TokenBucket(1, 60, burst=3), TokenBucket(7, 60, burst=5)),
    "a rate in smaller units": (TokenBucket(1, 60, burst=3), TokenBucket(0.29, 60, burst=5)),
    "rate and burst of intervals": (
        TokenBucket(1, 60, burst=3, refill="interval"),
        TokenBucket(2, 60, burst=5, refill="interval"),
    ),
    "a capacity": (LeakyBucket(1, 60, capacity=2), LeakyBucket(1, 60, capacity=4)),
    "the rate of a queue": (LeakyBucket(1, 60, capacity=2), LeakyBucket(3, 60, capacity=2)),
    "the numbers of a limit with a name": (FixedWindow(3, 60, name="x"), FixedWindow(5, 60, name="x")),
}

BEGINS_ANEW: dict[str, Change] = {
    "the period of a fixed window": (FixedWindow(3, 60), FixedWindow(5, 61)),
    "the start of a window": (FixedWindow(3, 60), FixedWindow(5, 60, start="epoch")),
    "a window that follows a calendar": (
        FixedWindow(3, 3600, start="epoch"),
        FixedWindow(5, "hour", start="calendar"),
    ),
    "the timezone": (
        FixedWindow(3, "day", start="calendar"),
        FixedWindow(5, "day", start="calendar", timezone="Europe/Berlin"),
    ),
    "the day a week begins with": (
        FixedWindow(3, "week", start="calendar"),
        FixedWindow(5, "week", start="calendar", week_start=6),
    ),
    "the unit of a calendar": (
        FixedWindow(3, "day", start="calendar"),
        FixedWindow(5, "week", start="calendar"),
    ),
    "the period of a sliding window": (SlidingWindow(3, 60), SlidingWindow(5, 120)),
    "the precision": (SlidingWindow(3, 60, precision=60), SlidingWindow(5, 60, precision=30)),
    "the period of a log": (SlidingLog(3, 60), SlidingLog(5, 61)),
    "the period of a counter": (SlidingWindowCounter(3, 60), SlidingWindowCounter(5, 61)),
    "the period of a bucket": (TokenBucket(3, 60), TokenBucket(5, 61)),
    "the refill": (TokenBucket(3, 60), TokenBucket(5, 60, refill="interval")),
    "the start of intervals": (
        TokenBucket(3, 60, refill="interval"),
        TokenBucket(5, 60, refill="interval", start="epoch"),
    ),
    "the period of a queue": (LeakyBucket(1, 60, capacity=2), LeakyBucket(1, 61, capacity=4)),
    "the algorithm": (FixedWindow(3, 60), SlidingLog(5, 60)),
    "the kind of bucket": (TokenBucket(3, 60), LeakyBucket(5, 60, capacity=0)),
    "the kind of sliding window": (SlidingWindow(3, 60), SlidingWindowCounter(5, 60)),
    "a name given": (FixedWindow(3, 60), FixedWindow(5, 60, name="x")),
    "a name changed": (SlidingWindow(3, 60, name="x"), SlidingWindow(5, 60, name="y")),
}


@pytest.fixture(params=["memory", "redis"])
def store(request):
    return MemoryStore() if request.param == "memory" else request.getfixturevalue("redis_store")


def left(limiter, row=0):
    return limiter.peek("a", cost=0).details[row].remaining


def admitted_of(limiter, hits):
    return sum(bool(limiter.hit("a")) for _ in range(hits))


class TestOneLimit:
    @pytest.mark.parametrize("change", KEEPS.values(), ids=KEEPS)
    @pytest.mark.parametrize("direction", [1, -1], ids=["there", "back"])
    def test_a_changed_number_applies_to_the_state_at_once(self, build, change, direction):
        before, after = change[::direction]
        old, new = build(before), build(after)
        assert old.hit("a", cost=2)
        assert left(new) == after.quota - 2
        assert admitted_of(new, 10) == after.quota - 2
        assert admitted_of(old, 10) == max(0, before.quota - after.quota)
        assert left(new) == left(old) == 0

    @pytest.mark.parametrize("change", BEGINS_ANEW.values(), ids=BEGINS_ANEW)
    @pytest.mark.parametrize("direction", [1, -1], ids=["there", "back"])
    def test_another_limit_begins_anew_and_both_keep_their_own(self, build, change, direction):
        before, after = change[::direction]
        old, new = build(before), build(after)
        assert old.hit("a", cost=2)
        assert left(new) == after.quota
        assert admitted_of(new, 10) == after.quota
        assert admitted_of(old, 10) == before.quota - 2
        assert admitted_of(new, 3) == admitted_of(old, 3) == 0


OLD_CODE = """
    import pickle, sys
    from overlimit import Limiter, ManualClock, RedisStore

    where, limits, now = pickle.load(sys.stdin.buffer)
    store, clock = RedisStore(**where), ManualClock(now)
    for number, limit in enumerate(limits):
        assert Limiter(limit, name=f"p{number}", store=store, clock=clock).hit("a", cost=2)
"""


def test_other_processes_know_each_limit_by_the_same_tag(redis_server, redis_store, prefix, clock):
    every = [*KEEPS.values(), *BEGINS_ANEW.values()]
    where = {"url": redis_server.unix_url(), "timeout": 10.0, "prefix": prefix}
    told = pickle.dumps((where, [before for before, _ in every], clock.now()))
    subprocess.run([sys.executable, "-c", dedent(OLD_CODE)], input=told, check=True)
    for number, (_, after) in enumerate(every):
        limiter = Limiter(after, name=f"p{number}", store=redis_store, clock=clock)
        assert left(limiter) == after.quota - (2 if number < len(KEEPS) else 0), after


class TestSeveralLimits:
    def test_equal_limits_are_told_apart_by_their_order(self, build):
        old, new = build([FixedWindow(9, 60), FixedWindow(4, 60)]), build([FixedWindow(9, 60)])
        assert old.hit("a", cost=3)
        assert new.hit("a", cost=3)
        assert [left(old, 0), left(old, 1)] == [3, 1]

    def test_identifiers_of_one_call_may_come_from_old_and_new_code(self, build):
        old, new = build([FixedWindow(3, 60)]), build([FixedWindow(3, 60), SlidingWindow(3, 60)])
        assert old.hit("a")
        assert new.hit("b")
        assert new.hit("a", "b", cost=2)
        assert not old.hit("a")
        assert not old.hit("b")


def test_a_charge_by_code_without_a_penalty_keeps_the_level(build, clock):
    old, new = build(FixedWindow(1, 1), penalty=Penalty([2, 4])), build(SlidingLog(5, 60))
    old.hit("a")
    assert old.hit("a").retry_after == 2.0
    clock.advance(2)
    assert new.hit("a")
    old.hit("a")
    assert old.hit("a").retry_after == 4.0
