"""Old and new code side by side: each limit keeps its state or begins anew, and no more than that passes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

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

PROGRAM = """
    import pickle, sys
    from overlimit import Limiter, ManualClock, RedisStore

    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        where, limits, options, now, call, arguments, cost = request
        options = {"name": "default", "store": RedisStore(**where), "clock": ManualClock(now), **options}
        limiter = Limiter(limits, **options)
        pickle.dump(getattr(limiter, call)(*arguments, cost=cost), sys.stdout.buffer)
        sys.stdout.buffer.flush()
"""


class Code:
    """A policy as some code has it, asked with ``hit`` and ``peek``."""

    def __init__(self, ask: Callable[[str, tuple[str, ...], int], Any]) -> None:
        self._ask = ask

    def hit(self, *identifiers: str, cost: int = 1) -> Any:
        return self._ask("hit", identifiers or ("a",), cost)

    def remaining(self, row: int = 0) -> int:
        remaining: int = self._ask("peek", ("a",), 0).details[row].remaining
        return remaining

    def admitted_of(self, hits: int) -> int:
        return sum(bool(self.hit()) for _ in range(hits))


@pytest.fixture(scope="module")
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Return two other processes, each of which answers for limiters of its own."""
    with ExitStack() as stack:
        children = []
        for _ in range(2):
            command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            children.append(stack.enter_context(child))
            stack.callback(child.stdin.close)
        yield children


@pytest.fixture(params=["memory objects", "redis update", "redis processes"])
def deploy(request, clock, prefix, redis_server):
    """Return a function that returns a policy as old and as new code have it."""
    kind, how = request.param.split(" ")
    store = MemoryStore() if kind == "memory" else request.getfixturevalue("redis_store")
    where = {"url": redis_server.unix_url(), "timeout": 10.0, "prefix": prefix}

    def as_objects(limits: list[Limit], options: dict[str, Any], _: int) -> Code:
        limiter = Limiter(limits, name="default", store=store, clock=clock, **options)
        return Code(lambda call, who, cost: getattr(limiter, call)(*who, cost=cost))

    one = Limiter("1/s", name="default", store=store, clock=clock)

    def by_update(limits: list[Limit], options: dict[str, Any], _: int) -> Code:
        def ask(call: str, who: tuple[str, ...], cost: int) -> Any:
            one.update(limits)
            return getattr(one, call)(*who, cost=cost)

        return Code(ask)

    def as_processes(limits: list[Limit], options: dict[str, Any], number: int) -> Code:
        child = request.getfixturevalue("processes")[number]

        def ask(call: str, who: tuple[str, ...], cost: int) -> Any:
            child.stdin.write(pickle.dumps((where, limits, options, clock.now(), call, who, cost)))
            child.stdin.flush()
            return pickle.load(child.stdout)

        return Code(ask)

    make = {"objects": as_objects, "update": by_update, "processes": as_processes}[how]

    def deployed(old: list[Limit], new: list[Limit], *penalties: Penalty | None) -> tuple[Code, Code]:
        options = [{"penalty": penalty} for penalty in penalties or (None, None)]
        return make(old, options[0], 0), make(new, options[1], 1)

    return deployed


class TestOneLimit:
    @pytest.mark.parametrize("change", KEEPS.values(), ids=KEEPS)
    @pytest.mark.parametrize("direction", [1, -1], ids=["there", "back"])
    def test_a_changed_number_applies_to_the_state_at_once(self, deploy, change, direction):
        before, after = change[::direction]
        old, new = deploy([before], [after])
        assert old.hit(cost=2)
        assert new.remaining() == after.quota - 2
        assert new.admitted_of(10) == after.quota - 2
        assert old.admitted_of(10) == max(0, before.quota - after.quota)
        assert new.remaining() == old.remaining() == 0

    @pytest.mark.parametrize("change", BEGINS_ANEW.values(), ids=BEGINS_ANEW)
    @pytest.mark.parametrize("direction", [1, -1], ids=["there", "back"])
    def test_another_limit_begins_anew_and_both_keep_their_own(self, deploy, change, direction):
        before, after = change[::direction]
        old, new = deploy([before], [after])
        assert old.hit(cost=2)
        assert new.remaining() == after.quota
        assert new.admitted_of(10) == after.quota
        assert old.admitted_of(10) == before.quota - 2
        assert new.admitted_of(3) == old.admitted_of(3) == 0


class TestSeveralLimits:
    def test_equal_limits_are_told_apart_by_their_order(self, deploy):
        old, new = deploy([FixedWindow(9, 60), FixedWindow(4, 60)], [FixedWindow(9, 60)])
        assert old.hit(cost=3)
        assert new.hit(cost=3)
        assert [old.remaining(0), old.remaining(1)] == [3, 1]

    def test_everything_at_once_loses_nothing(self, deploy):
        old, new = deploy(
            [FixedWindow(3, 60), SlidingWindow(5, 60), TokenBucket(4, 60), LeakyBucket(1, 60, capacity=8)],
            [LeakyBucket(2, 60, capacity=8), SlidingLog(2, 60), TokenBucket(9, 60), FixedWindow(6, 60)],
        )
        for _ in range(2):
            assert old.hit()
            assert new.hit()
        assert [new.remaining(i) for i in range(4)] == [6, 0, 5, 2]
        assert [old.remaining(i) for i in range(4)] == [0, 3, 0, 5]

    def test_identifiers_of_one_call_may_come_from_old_and_new_code(self, deploy):
        old, new = deploy([FixedWindow(3, 60)], [FixedWindow(3, 60), SlidingWindow(3, 60)])
        assert old.hit("a")
        assert new.hit("b")
        assert new.hit("a", "b", cost=2)
        assert not old.hit("a")
        assert not old.hit("b")


@pytest.mark.parametrize("deploy", ["memory objects", "redis processes"], indirect=True)
class TestPenalties:
    LIMITS = (FixedWindow(1, 1),)

    def test_a_charge_by_code_without_a_penalty_keeps_the_level(self, deploy, clock):
        old, new = deploy([*self.LIMITS], [SlidingLog(5, 60)], Penalty([2, 4]), None)
        old.hit()
        assert old.hit().retry_after == 2.0
        clock.advance(2)
        assert new.hit()
        old.hit()
        assert old.hit().retry_after == 4.0
