"""`Concurrency.acquire` and `slot(timeout=)`: whoever waits gets a slot, in order, or is refused in time."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import RateLimitExceeded
from overlimit.recipes import Concurrency
from overlimit.waiting import wait_queues
from programs import output_of
from servers.patience import PATIENCE, eventually

EVERY = pytest.mark.every_store
SHARED = pytest.mark.parametrize("store", ["shared_memory", "redis"], indirect=True)
LONG = 6 * PATIENCE
"""Seconds that nobody waits unless something is wrong."""


def standing_in_line():
    """Return how many have been told to wait."""
    return sum(bool(each.stands_at) for waiters in wait_queues().by_family.values() for each in list(waiters))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(6) as threads:
        yield threads


@EVERY
class TestInOneProcess:
    def test_first_come_first_served_each_as_one_leaves(self, make, pool):
        at_once, order = make(Concurrency, 1), []
        slot = at_once.acquire("a")

        def work(number):
            with at_once.slot("a", timeout=LONG):
                order.append((number, at_once.in_use("a")))

        working = []
        for number in range(5):
            working.append(pool.submit(work, number))
            eventually(lambda number=number: standing_in_line() == number + 1)
        assert at_once.enter("b"), "who waits for another key holds nobody up"
        assert order == []
        slot.leave()
        for each in working:
            each.result(PATIENCE)
        assert order == [(number, 1) for number in range(5)]
        assert at_once.in_use("a") == standing_in_line() == 0

    def test_one_that_is_dropped_lets_the_next_in(self, make, pool):
        at_once = make(Concurrency, 1)
        slot = at_once.acquire("a")
        waiting = pool.submit(at_once.acquire, "a", timeout=LONG)
        eventually(standing_in_line)
        del slot
        assert waiting.result(PATIENCE)

    def test_the_slot_of_one_who_never_leaves_is_had_after_the_longest_by_the_clock(self, make, clock, pool):
        at_once = make(Concurrency, 1, longest=60)
        slow = at_once.acquire("a")
        waiting = pool.submit(at_once.acquire, "a", timeout=LONG)
        eventually(standing_in_line)
        clock.advance(59.999999)
        assert at_once.enter("a") is None
        assert not waiting.done()
        clock.advance(0.000001)
        assert waiting.result(PATIENCE)
        assert slow
        assert at_once.in_use("a") == 1

    def test_who_waits_is_refused_when_the_time_is_up_and_not_before(self, store):
        at_once = Concurrency(1, longest=600, store=store, name="n")
        kept = at_once.acquire("a")
        began = time.monotonic()
        with pytest.raises(
            RateLimitExceeded, match=r"slots are taken \(. at once\): one is free once .* at the latest in"
        ) as refused:
            at_once.acquire("a", timeout=0.3)
        assert 0.29 <= time.monotonic() - began < 0.3 + PATIENCE
        assert 590 < refused.value.decision.retry_after <= 600
        assert kept
        assert at_once.in_use("a") == 1


HOLDING = """
import sys
from overlimit import RedisStore, SharedMemoryStore
from overlimit.recipes import Concurrency

url, name = sys.argv[1:]
store = RedisStore(url, timeout=10, prefix=name) if "/" in url else SharedMemoryStore(url, timeout=10)
slot = Concurrency(1, longest=600, store=store, name="n").acquire("a")
print("taken", flush=True)
sys.stdin.readline()
slot.leave()
print("left", flush=True)
"""


@SHARED
def test_what_another_process_leaves_is_found_within_a_quarter_of_a_second(store, prefix, pool):
    at_once = Concurrency(1, longest=600, store=store, name="n")
    command = [sys.executable, "-c", HOLDING, store._arguments[0], prefix]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "taken\n"
        waiting = pool.submit(at_once.acquire, "a", timeout=LONG)
        time.sleep(1)  # until it seldom looks
        assert not waiting.done()
        assert 4 <= at_once._limiter.stats()["calls"] <= 40, "it neither sleeps through nor asks all the time"
        print(file=other.stdin, flush=True)
        assert other.stdout.readline() == "left\n"
        began = time.monotonic()
        assert waiting.result(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2


INTERRUPTED = """
    import random, signal, sys, threading
    from overlimit import RateLimitExceeded, waiting
    from overlimit.recipes import Concurrency

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = lambda swallowed: None
    at_once = Concurrency(2, longest=600)
    over = threading.Event()

    def work():
        while not over.is_set():
            with at_once.slot("a", timeout=None):
                pass

    other = threading.Thread(target=work)
    other.start()
    entered = 0
    for _ in range(1000):
        try:
            # Again later, since Python swallows what is raised in a finalizer.
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-3), 0.2)
            while True:
                with at_once.slot("a", timeout=None):
                    entered += 1
                if slot := at_once.enter("a"):
                    slot.leave()
                try:
                    at_once.acquire("a", timeout=0).leave()
                except RateLimitExceeded:
                    pass
        except KeyboardInterrupt:
            slot = None
    signal.setitimer(signal.ITIMER_REAL, 0)
    over.set()
    other.join()
    print(entered > 1000, at_once.in_use("a"), len(waiting.wait_queues().by_family))
"""


@pytest.mark.check
def test_who_is_interrupted_anywhere_holds_no_slot():
    assert output_of(INTERRUPTED) == "True 0 0\n"


class TestArguments:
    def test_a_slot_is_not_awaited(self):
        with pytest.raises(TypeError, match="write async with AsyncConcurrency"):
            Concurrency(1).slot("a").__aenter__()

    def test_a_slot_decorates_nothing(self):
        with pytest.raises(TypeError, match=r"write with concurrency\.slot\('user:42'\) in the function"):

            @Concurrency(1).slot("a")
            def never_made(): ...
