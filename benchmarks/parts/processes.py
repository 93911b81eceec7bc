"""Hits of many processes at once, on memory, shared memory and Redis: how many a second, all together.

Each process hits its keys in an order of its own. Memory is each process's own, so it counts another thing:
it is here to show what sharing costs. The percentiles are those of 50 hits.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from array import array
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from measuring.servers import redis_server, shared_memory
from measuring.timing import Statement
from measuring.turns import Contest, Contestant, Effort, Found, Sample
from overlimit import MemoryStore, RedisStore, SharedMemoryStore
from parts.peers import PLENTY, ours

PROCESSES = (1, 2, 4)
KEYS = (1, 1000)
AT_ONCE = 50
ONE = f"{PLENTY}/minute"
PATIENCE = 60


def contests(effort: Effort) -> Found:
    with redis_server() as socket, shared_memory() as shared:
        hits: dict[str, Callable[[], Statement]] = {
            "d[k] += 1 of each": lambda: Statement("d[k] = d.get(k, 0) + 1", {"d": {}}),
            "overlimit, memory of each": lambda: ours(ONE, MemoryStore()),
            "overlimit, shared memory": lambda: ours(ONE, SharedMemoryStore(shared.path)),
            "overlimit, Redis": lambda: ours(ONE, RedisStore(f"unix://{socket}", timeout=5.0)),
        }
        for keys in KEYS:
            title = "Hits by processes, all on one key" if keys == 1 else f"Hits by processes, {keys:,} keys"
            points = [
                Contestant(name, partial(measured, hit, count, keys, 6 * effort.seconds), count)
                for count in PROCESSES[: effort.of(3, 2)]
                for name, hit in hits.items()
            ]
            yield Contest(title, "hits/s", points, "processes", rounds=effort.of(5, 1))


def measured(hit: Callable[[], Statement], processes: int, keys: int, seconds: float) -> Sample:
    """Return the hits per second of all processes together."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=work, args=(hit, keys, seconds, start, answers)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    results = [answers.get(timeout=seconds + PATIENCE) for _ in workers]
    for worker in workers:
        worker.join()
    return Sample(sum(rate for rate, _ in results), [each for _, slow in results for each in slow])


def work(hit: Callable[[], Statement], keys: int, seconds: float, start: Barrier, answers: Any) -> None:
    """Hit until the time is over; answer with the hits per second, and the microseconds of each fifty."""
    identifiers = [f"user:{number}" for number in range(keys)]
    random.Random(os.getpid()).shuffle(identifiers)
    statement = hit()
    statement.for_each("k", identifiers).compiled()(1)
    order = identifiers * AT_ONCE if keys < AT_ONCE else identifiers
    runs = [
        statement.for_each("k", order[place : place + AT_ONCE]).compiled()
        for place in range(0, len(order), AT_ONCE)
    ]
    start.wait()
    latencies = array("d")
    began = last = time.perf_counter()
    while last - began < seconds:
        for run in runs:
            run(1)
            before, last = last, time.perf_counter()
            latencies.append((last - before) * 1e6)
    answers.put((len(latencies) * AT_ONCE / (last - began), latencies))
