"""Hits from many processes on memory, shared memory and Redis: python benchmarks/processes.py [--seconds S].

All cases take turns; the median of the rounds counts. Each process hits its keys in an order of its own.
Memory is each process's own, so it counts another thing: it is here to show what sharing costs. Redis is
reached over a unix socket. The last column is of shared memory: 999 of 1000 times, 50 hits take no longer.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import statistics
import time
from collections import defaultdict
from multiprocessing.synchronize import Barrier
from typing import Any

from compare import PLENTY, redis_server

from overlimit import Limiter, MemoryStore, RedisStore, SharedMemoryStore, Store

ROUNDS = 7
PROCESSES = (1, 2, 4)
KEYS = (1, 1000)
STORES = ("memory", "shared memory", "redis")
HITS_BETWEEN_LOOKS = 50


def store_for(name: str, place: str) -> Store:
    """Return the store as one process opens it."""
    if name == "memory":
        return MemoryStore()
    if name == "shared memory":
        return SharedMemoryStore(f"bench-{os.getppid()}")
    return RedisStore(f"unix://{place}", timeout=5.0)


def work(name: str, place: str, keys: int, seconds: float, start: Barrier, answers: Any) -> None:
    """Hit until the time is over; answer with hits per second and the slowest of a thousand, in ms."""
    hit = Limiter(f"{PLENTY}/minute", name="default", store=store_for(name, place)).hit
    identifiers = [f"user:{number}" for number in range(keys)]
    random.Random(os.getpid()).shuffle(identifiers)
    hit(identifiers[0])
    start.wait()
    slowest: list[float] = []
    began = last = time.perf_counter()
    count = 0
    while last - began < seconds:
        for _ in range(HITS_BETWEEN_LOOKS):
            hit(identifiers[count % keys])
            count += 1
        before, last = last, time.perf_counter()
        slowest.append(last - before)
    slowest.sort()
    answers.put((count / (last - began), slowest[int(len(slowest) * 0.999)] * 1e3))


def measure(name: str, place: str, processes: int, keys: int, seconds: float) -> tuple[float, float]:
    """Return the hits per second of all processes together, and the worst 99.9th percentile."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(processes), context.Queue()
    arguments = (name, place, keys, seconds, start, answers)
    workers = [context.Process(target=work, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    results = [answers.get(timeout=seconds + 60) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rate for rate, _ in results), max(slow for _, slow in results)


def main() -> None:
    """Print thousands of hits per second by number of processes and of keys."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement (default 0.4)")
    seconds = parser.parse_args().seconds
    print(
        f"{'thousand hits per second':26}"
        + "".join(f"{name:>16}" for name in STORES)
        + f"{'50 hits, p99.9':>18}"
    )
    cases = [(keys, processes) for keys in KEYS for processes in PROCESSES]
    results: defaultdict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    with redis_server() as socket:
        for _ in range(ROUNDS):
            for (keys, processes), name in itertools.product(cases, STORES):
                results[name, keys, processes].append(measure(name, socket, processes, keys, seconds))
    SharedMemoryStore(f"bench-{os.getpid()}").unlink()
    for keys, processes in cases:
        rates = [
            statistics.median(rate for rate, _ in results[name, keys, processes]) / 1e3 for name in STORES
        ]
        slow = statistics.median(slow for _, slow in results["shared memory", keys, processes])
        label = f"{processes} process{'es' * (processes > 1)}, {keys} key{'s' * (keys > 1)}"
        print(f"{label:26}" + "".join(f"{rate:16,.0f}" for rate in rates) + f"{slow:15.2f} ms")


if __name__ == "__main__":
    main()
