"""The calls that count_instructions.py counts: ``counted_calls.py CALLS [URL]``, in this process or in Redis.

Each case is run to warm up, then CALLS times, then twice as often, with marks between them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from struct import pack
from typing import Any

from measuring.servers import redis_server
from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    SharedMemoryStore,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
)
from overlimit.limits import Limit
from overlimit.redis_scripts import script_for

ONE_LIMIT = "1000000/day"
THREE_LIMITS = "1000000/hour; 2000000/day; 5000000/week"

Case = Callable[[int], None]


def nothing(times: int) -> None:
    for _ in repeat(None, times):
        pass


def hits_of_one(limiter: Limiter) -> Case:
    def hit(times: int) -> None:
        for _ in repeat(None, times):
            limiter.hit("user:1")

    return hit


def memory_cases() -> Iterator[tuple[str, Case]]:
    one, three = (Limiter(limits, store=MemoryStore()) for limits in (ONE_LIMIT, THREE_LIMITS))
    bucket = Limiter(TokenBucket(1_000_000, per=30 * 86_400), store=MemoryStore())
    calendar = Limiter(
        FixedWindow(1_000_000, per="month", start="calendar", timezone="Europe/Berlin"), store=MemoryStore()
    )
    refusing = Limiter("1/day", store=MemoryStore())
    locked = Limiter(ONE_LIMIT, store=MemoryStore())
    locked.lock("user:1", seconds=86_400)
    # What remains is an int that Python keeps anyway: how it would find room for another depends on the heap.
    decision = Limiter("100/day", store=MemoryStore()).hit("user:1")

    def hit_three_limits(times: int) -> None:
        for _ in repeat(None, times):
            three.hit("user:1", "ip:203.0.113.7")

    def peek(times: int) -> None:
        for _ in repeat(None, times):
            one.peek("user:1")

    def hit_under_limits_of_the_call(times: int) -> None:
        for _ in repeat(None, times):
            one.with_limits("200/minute").hit("user:1")

    def read_fields(times: int) -> None:
        for _ in repeat(None, times):
            decision.allowed, decision.remaining, decision.limit, decision.retry_after, decision.reset_after  # noqa: B018

    def read_details(times: int) -> None:
        for _ in repeat(None, times):
            tuple(decision.details)

    def read_one_row(times: int) -> None:
        for _ in repeat(None, times):
            decision.details[0].remaining  # noqa: B018

    def hit_and_read_one_row(times: int) -> None:
        for _ in repeat(None, times):
            one.hit("user:1").details[0].remaining  # noqa: B018

    yield "nothing", nothing
    yield "a hit in memory: one limit", hits_of_one(one)
    yield "a hit in memory: three limits, two identifiers", hit_three_limits
    yield "a hit in memory: one token bucket", hits_of_one(bucket)
    yield "a hit in memory: one window of the calendar", hits_of_one(calendar)
    yield "a refusal in memory: one limit", hits_of_one(refusing)
    yield "a refusal in memory: a locked identifier", hits_of_one(locked)
    yield "a peek in memory: one limit", peek
    yield "a hit in memory: limits of the call", hit_under_limits_of_the_call
    yield "five fields of a Decision", read_fields
    yield "the details of a Decision", read_details
    yield "one row of a Decision's details", read_one_row
    yield "a hit in memory, and one row of its details", hit_and_read_one_row


def shared_memory_cases(directory: str) -> Iterator[tuple[str, Case]]:
    store = SharedMemoryStore(f"{directory}/counted", timeout=30.0)
    three = Limiter(THREE_LIMITS, name="three", store=store)

    def hit_three_limits(times: int) -> None:
        for _ in repeat(None, times):
            three.hit("user:1", "ip:203.0.113.7")

    yield "a hit on shared memory: three limits, two identifiers", hit_three_limits


def cases_without_asking(url: str) -> Iterator[tuple[str, Case]]:
    """Yield calls that a process decides by what a server has told it."""
    store = RedisStore(url, timeout=30.0, lease=10.0, max_stale=60.0)
    leasing = Limiter("1000000000/month", name="leasing", store=store)
    while leasing.stats()["held"] < 20_000:
        leasing.hit("user:1")
    yield "a hit of a lease: one limit", hits_of_one(leasing)
    refusing = Limiter("10/month", name="refusing", store=store)
    while refusing.hit("user:1"):
        pass
    yield "a refusal that is known: one limit", hits_of_one(refusing)


THREE_LONG_LIMITS = "1000000/day; 5000000/week; 20000000/30 days"
"""Whose blocks hardly ever end during a run, by the server's clock: an older block would be unpacked, too."""

SMALLEST_SCRIPT = """redis.call('TIME')
local value = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 61000)
return value"""
SIZE_OF_A_WINDOW = 84
"""Bytes of the value of a key with one sliding window whose hits lie in two blocks."""


def smallest_script(url: str) -> Case:
    """Return what reads the time and a record, and writes one: below that there is no limiter."""
    import redis

    client: Any = redis.Redis.from_url(url)
    name = client.script_load(SMALLEST_SCRIPT)

    def run_smallest_script(times: int) -> None:
        for _ in repeat(None, times):
            client.evalsha(name, 1, "smallest", "x" * SIZE_OF_A_WINDOW)

    return run_smallest_script


def hits(limiter: Limiter, *identifiers: str) -> Case:
    def hit(times: int) -> None:
        for _ in repeat(None, times):
            limiter.hit(*identifiers)

    return hit


def hits_of_full_log(store: RedisStore) -> Case:
    """Return hits on a log of twenty entries, each of which takes the place of one that has just expired."""
    clock = ManualClock(start=1_700_000_000)
    log = Limiter(SlidingLog(20, per=20), name="log", store=store, clock=clock)

    def hit_full_log(times: int) -> None:
        for _ in repeat(None, times):
            clock.advance(1)
            if not log.hit("user:1"):
                raise AssertionError("a log of 20 per 20 s admits one per second")

    return hit_full_log


def hits_of_full_windows(store: RedisStore, count: int) -> Case:
    """Return hits on so many sliding windows that have counted in each of their fifty blocks."""
    clock = ManualClock(start=1_700_000_000)
    windows = [SlidingWindow(1_000_000 + i, per=50 * 2**i) for i in range(count)]
    limiter = Limiter(windows, name=f"full-{count}", store=store, clock=clock)
    for _ in range(50 * 2**count):
        limiter.hit("user:1")
        clock.advance(1)
    clock.advance(-1)
    return hits(limiter, "user:1")


def leases(url: str, name: str, limit: Limit, wanted: int) -> Case:
    """Return leases that get all they want, by the server's clock: some are still held, others have ended."""
    import redis

    client: Any = redis.Redis.from_url(url)
    script = script_for([limit], "lease")
    sha1 = client.script_load(script.text)
    head = pack("<6q", -1, 1_000, 2**63 - 1, 1, wanted, 100_000)
    arguments = head + script.arguments[0][len(head) :]

    def lease(times: int) -> None:
        for _ in repeat(None, times):
            if client.evalsha(sha1, 1, name, arguments)[9] != wanted:
                raise AssertionError("what was granted is not what was wanted")

    return lease


def redis_cases(url: str) -> Iterator[tuple[str, Case]]:
    store = RedisStore(url, timeout=30.0)

    def limited(name: str, limits: str | TokenBucket) -> Limiter:
        return Limiter(limits, name=name, store=store)

    yield "the smallest script in Redis", smallest_script(url)
    yield "a script in Redis: one limit", hits(limited("one", ONE_LIMIT), "user:1")
    # Each hit moves its expiry by more than half a second, so that each sets one, however fast calls come.
    bucket = TokenBucket(1_000_000, per=30 * 86_400)
    yield "a script in Redis: one token bucket", hits(limited("bucket", bucket), "user:1")
    yield "a script in Redis: three limits", hits(limited("three", THREE_LONG_LIMITS), "user:1")
    two = hits(limited("two", THREE_LONG_LIMITS), "user:1", "ip:203.0.113.7")
    yield "a script in Redis: three limits, two identifiers", two
    yield "a script in Redis: a refusal, one limit", hits(limited("refusing", "1/day"), "user:1")
    yield "a lease in Redis: one limit", leases(url, "leased", SlidingWindow(1_000_000, 30 * 86_400), 9)
    yield "a lease in Redis: one token bucket", leases(url, "held", bucket, 9)
    yield "a script in Redis: a log of twenty entries", hits_of_full_log(store)
    yield "a script in Redis: one limit with fifty blocks", hits_of_full_windows(store, 1)
    yield "a script in Redis: three limits with fifty blocks", hits_of_full_windows(store, 3)


def mark_memory() -> None:
    """Call what callgrind takes for the order to write what it counted and to begin anew."""
    os.getppid()


def marking_redis(url: str) -> Callable[[], None]:
    """Return a function that has the server at a unix socket call the same."""
    import redis

    client: Any = redis.Redis.from_url(url)

    def mark_redis() -> None:
        client.config_set("dir", str(client.config_get("dir")["dir"]))

    return mark_redis


def run(case: Case, calls: int, mark: Callable[[], None]) -> None:
    case(max(calls, 50))
    for times in (calls, 2 * calls):
        mark()
        case(times)
    mark()


def main(calls: int, url: str | None = None) -> None:
    if url is not None:
        run_all(redis_cases(url), calls, marking_redis(url))
        return
    with tempfile.TemporaryDirectory() as directory, redis_server() as socket:
        others = chain(shared_memory_cases(directory), cases_without_asking(f"unix://{socket}"))
        run_all(chain(memory_cases(), others), calls, mark_memory)


def run_all(cases: Iterable[tuple[str, Case]], calls: int, mark: Callable[[], None]) -> None:
    for name, case in cases:
        run(case, calls, mark)
        print(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
