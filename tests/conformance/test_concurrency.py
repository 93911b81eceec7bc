"""Many callers at once: threads on each store, and processes on Redis, admit exactly the limit."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import LeakyBucket, Limiter, TokenBucket, hit_all

from .all_algorithms import plain_limits

THREADS = 16
HITS = 10
ROUNDS = 15

# Nothing may come free while a round runs, however slow the machine.
LIMITS = [
    *plain_limits(5, per=86_400).values(),
    TokenBucket(3, 86_400, burst=5, refill="interval"),
    LeakyBucket(3, 86_400, capacity=2),
]


def hit_together(calls) -> list[int]:
    """Let each thread run its call ``HITS`` times, all starting at once, round by round.

    ``calls(thread, round)`` is one hit. Return how many were admitted in each round.
    """
    admitted = [0] * ROUNDS
    lock = threading.Lock()
    start = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        for turn in range(ROUNDS):
            start.wait(timeout=60)
            passed = sum(bool(calls(thread, turn)) for _ in range(HITS))
            with lock:
                admitted[turn] += passed

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, thread) for thread in range(THREADS)]:
            done.result()
    return admitted


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)
def test_threads_admit_exactly_the_limit_again_and_again(store, limit):
    limiter = Limiter(limit, name="default", store=store)
    assert hit_together(lambda thread, turn: limiter.hit(f"id:{turn}")) == [5] * ROUNDS


def test_calls_over_the_same_keys_in_opposite_orders_do_not_wait_for_each_other(store):
    first, second = (Limiter("1000000/day", name=name, store=store) for name in ("first", "second"))

    def call(thread: int, turn: int) -> object:
        charges = [(first, "a"), (second, "b"), (first, f"c:{turn % 7}")]
        return hit_all(charges if thread % 2 else charges[::-1])

    assert hit_together(call) == [THREADS * HITS] * ROUNDS
    assert first.peek("a", cost=0).remaining == 1_000_000 - THREADS * HITS * ROUNDS


WORKER = """
import sys
from overlimit import FixedWindow, Limiter, RedisStore, SlidingWindow, TokenBucket

url, prefix = sys.argv[1:]
limits = [FixedWindow(50, 86_400), SlidingWindow(50, 86_400), TokenBucket(50, 86_400)]
limiter = Limiter(limits, name="default", store=RedisStore(url, timeout=10.0, prefix=prefix))
limiter.peek("warm up")
print("ready", flush=True)
sys.stdin.readline()
print(sum(bool(limiter.hit("user:1", "ip:1")) for _ in range(200)))
"""


def test_4_processes_admit_exactly_the_limit(redis_server, prefix):
    command = [sys.executable, "-c", WORKER, redis_server.unix_url(), prefix]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    admitted = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    assert sum(admitted) == 50
