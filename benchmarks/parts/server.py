"""What a decision takes of the server, counted: thousands of instructions of redis-server, by callgrind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any

import redis

from count_instructions import PATIENCE, await_answer, per_call, started_server
from counted_calls import (
    THREE_LONG_LIMITS,
    Case,
    hits,
    hits_of_full_log,
    hits_of_full_windows,
    marking_redis,
    run,
    smallest_script,
)
from measuring.turns import Contest, Effort, Found, Sample, Turn, contest
from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limit,
    Limiter,
    RedisStore,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from parts.published import published

PLENTY, DAY = 1_000_000, 86_400
ONE_OF_EACH: dict[str, Limit] = {
    "fixed window": FixedWindow(PLENTY, per=DAY),
    "sliding window": SlidingWindow(PLENTY, per=DAY),
    "sliding window counter": SlidingWindowCounter(PLENTY, per=DAY),
    "token bucket": TokenBucket(PLENTY, per=30 * DAY),
    "leaky bucket": LeakyBucket(PLENTY, per=30 * DAY, capacity=PLENTY),
}


def contests(effort: Effort) -> Found:
    if shutil.which("valgrind") is None:
        yield "Nothing was counted, as valgrind is not installed"
        return
    with counted_server() as (directory, url):
        yield of_a_call(directory, url, effort)


@contextmanager
def counted_server() -> Iterator[tuple[str, str]]:
    """Run a server under callgrind; yield where that leaves its counts, and the server's URL."""
    with tempfile.TemporaryDirectory() as directory:
        server = started_server(directory)
        try:
            url = f"unix://{directory}/redis.sock"
            await_answer(url, server)
            yield directory, url
        finally:
            server.terminate()
            server.wait(PATIENCE)


def of_a_call(directory: str, url: str, effort: Effort) -> Contest:
    # Enough for what the server does once a second, 120 thousand instructions, to stay below what is counted.
    calls, mark = effort.of(200, 50), marking_redis(url)
    turns: dict[str, Turn] = {
        name: partial(counted, directory, case, calls, mark) for name, case in cases(url)
    }
    return contest("What the server does for a call", "thousand instructions", turns, rounds=1)


def counted(directory: str, case: Case, calls: int, mark: Callable[[], None]) -> Sample:
    run(case, calls, mark)
    return Sample(per_call(directory, ["it"], calls)["it"] / 1000)


def cases(url: str) -> Iterator[tuple[str, Case]]:
    client: Any = redis.Redis.from_url(url)
    one = client.script_load("return 1")
    yield "INCR", repeated(lambda: client.incr("count"))
    yield "EVALSHA of `return 1`", repeated(lambda: client.evalsha(one, 0))
    yield "the smallest script", smallest_script(url)
    for name, limit in ONE_OF_EACH.items():
        yield f"overlimit, {name}", hits(limiter(url, name, limit), "user:1")
    store = RedisStore(url, timeout=30.0)
    yield "overlimit, sliding log of 20 entries", hits_of_full_log(store)
    yield "overlimit, sliding window of 50 blocks", hits_of_full_windows(store, 1)
    yield "overlimit, three sliding windows of 50 blocks", hits_of_full_windows(store, 3)
    yield "overlimit, a refusal by a sliding window", hits(limiter(url, "refusing", "1/day"), "user:1")
    three = limiter(url, "three", THREE_LONG_LIMITS)
    yield "overlimit, three sliding windows", hits(three, "user:1")
    yield "overlimit, 2 identifiers x 3 windows", hits(three, "user:2", "ip:203.0.113.7")
    for name, call in published(client):
        yield name, repeated(call)


def limiter(url: str, name: str, limits: Limit | str) -> Limiter:
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    return Limiter(limits, name=plain, store=RedisStore(url, timeout=30.0))


def repeated(call: Callable[[], object]) -> Case:
    def case(times: int) -> None:
        for _ in repeat(None, times):
            call()

    return case
