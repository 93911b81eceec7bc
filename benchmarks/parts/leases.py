"""Leases and cached refusals: what a decision here takes, and how many commands are sent for a thousand.

Each process makes 2,000 calls a second, a few at a time, on one key.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

import redis

from count_instructions import PATIENCE
from counted_calls import Case, hits, leases, marking_redis
from measuring.servers import redis_server
from measuring.timing import Statement, looped
from measuring.turns import Contest, Contestant, Effort, Found, Sample, Turn, contest
from overlimit import FixedWindow, Limiter, MemoryStore, RedisStore, SlidingWindow, TokenBucket
from overlimit.limits import Limit
from parts.peers import PLENTY, ours
from parts.server import counted, counted_server

PROCESSES = (1, 2, 4)
CALLS_A_SECOND = 2000
AT_ONCE = 4
LONG = 86_400


@dataclass(frozen=True)
class Life:
    """How long units are leased, or refusals believed, under a limit of so many."""

    most: int
    lease: float = 0.0
    max_stale: float = 0.0


HOT = {
    "asking for each": Life(PLENTY),
    "leases of 50 ms": Life(PLENTY, lease=0.05),
    "leases of 100 ms": Life(PLENTY, lease=0.1),
    "leases of 500 ms": Life(PLENTY, lease=0.5),
}
FLOOD = {
    "asking for each": Life(1),
    "max_stale of 100 ms": Life(1, max_stale=0.1),
    "max_stale of 500 ms": Life(1, max_stale=0.5),
}


def contests(effort: Effort) -> Found:
    with redis_server() as socket:
        yield contest("A decision without asking", "ns", decisions(socket, effort))
        yield of_processes("Commands of a hot key", socket, HOT, effort)
        yield of_processes("Commands of a flood of refusals", socket, FLOOD, effort)
    if shutil.which("valgrind") is None:
        yield "Nothing was counted, as valgrind is not installed"
        return
    with counted_server() as (directory, url):
        yield from of_the_server(directory, url, effort)


def decisions(socket: str, effort: Effort) -> dict[str, Turn]:
    plenty = f"{PLENTY}/minute"
    store = RedisStore(f"unix://{socket}", timeout=5.0, lease=10.0, max_stale=60.0)
    refusing = Limiter(FixedWindow(1, per=LONG), name="refusing", store=store)
    in_memory = Limiter(FixedWindow(1, per=LONG), store=MemoryStore())
    for limiter in (refusing, in_memory):
        limiter.hit("user:1")
    return {
        name: looped(statement, effort.seconds)
        for name, statement in {
            "a hit in memory": ours(plenty, MemoryStore()),
            "a hit of a lease": ours(plenty, store, name="leased"),
            "a refusal in memory": Statement("hit(k)", {"hit": in_memory.hit, "k": "user:1"}),
            "a refusal that is known": Statement("hit(k)", {"hit": refusing.hit, "k": "user:1"}),
        }.items()
    }


def of_processes(title: str, socket: str, lives: dict[str, Life], effort: Effort) -> Contest:
    points = [
        Contestant(name, partial(asked, socket, life, count, 30 * effort.seconds), count)
        for count in PROCESSES[: effort.of(3, 2)]
        for name, life in lives.items()
    ]
    return Contest(title, "commands per 1,000", points, "processes", rounds=1)


def asked(socket: str, life: Life, processes: int, seconds: float) -> Sample:
    """Return how many commands a thousand calls of processes take, after a call of each."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(processes + 1)
    workers = [context.Process(target=work, args=(socket, life, seconds, start)) for _ in range(processes)]
    with redis.Redis(unix_socket_path=socket) as client:
        for worker in workers:
            worker.start()
        start.wait(PATIENCE)
        client.config_resetstat()
        start.wait(PATIENCE)
        for worker in workers:
            worker.join()
        commands = scripts_run(client)
    return Sample(1000 * commands / (processes * calls_in(seconds)))


def calls_in(seconds: float) -> int:
    return AT_ONCE * max(1, round(seconds * CALLS_A_SECOND / AT_ONCE))


def work(socket: str, life: Life, seconds: float, start: Barrier) -> None:
    """Make the calls when they are due."""
    store = RedisStore(f"unix://{socket}", timeout=5.0, lease=life.lease, max_stale=life.max_stale)
    hit = Limiter(FixedWindow(life.most, per=LONG), name=f"hot-{life.most}", store=store).hit
    hit("user:1")
    start.wait(PATIENCE)
    start.wait(PATIENCE)
    began = time.perf_counter()
    for number in range(calls_in(seconds) // AT_ONCE):
        while (wait := began + number * AT_ONCE / CALLS_A_SECOND - time.perf_counter()) > 0:
            time.sleep(wait)
        for _ in range(AT_ONCE):
            hit("user:1")


def scripts_run(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


def of_the_server(directory: str, url: str, effort: Effort) -> Iterator[Contest]:
    """Yield a call that is decided, and one that also leases, for each kind of record."""
    calls, mark = effort.of(200, 10), marking_redis(url)
    limits: dict[str, Limit] = {
        "sliding window": SlidingWindow(PLENTY // 1000, per=LONG),
        "token bucket": TokenBucket(PLENTY // 1000, per=30 * LONG),
    }
    for name, limit in limits.items():
        cases = {f"a call, {name}": decided(url, limit), f"with a lease, {name}": leases(url, name, limit, 9)}
        turns: dict[str, Turn] = {
            each: partial(counted, directory, case, calls, mark) for each, case in cases.items()
        }
        yield contest(f"What the server does for a lease, {name}", "thousand instructions", turns, rounds=1)


def decided(url: str, limit: Limit) -> Case:
    store = RedisStore(url, timeout=30.0)
    return hits(Limiter(limit, name=limit.algorithm, store=store), "user:1")
