"""Redis hits from many threads, side by side in one run: python benchmarks/threads.py [--seconds S].

The contestants take turns; the median of the rounds counts. Each has one limit and an identifier per thread.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable

import limits
import redis
import throttled
from compare import PLENTY, redis_server

from overlimit import Limiter, RedisStore

ROUNDS = 3
THREADS = (1, 2, 8, 16, 32)

Hit = Callable[[str], object]


def contestants(socket: str) -> dict[str, Hit]:
    """What each library's user would write."""
    ours = Limiter(f"{PLENTY}/minute", name="default", store=RedisStore(f"unix://{socket}", timeout=5.0))
    client = redis.Redis(unix_socket_path=socket)
    store = throttled.RedisStore(server=f"unix://{socket}")
    bucket = throttled.Throttled(using="sliding_window", quota=throttled.per_min(PLENTY), store=store)
    moving = limits.strategies.SlidingWindowCounterRateLimiter(
        limits.storage.storage_from_string(f"redis+unix://{socket}")
    )
    item = limits.parse(f"{PLENTY}/minute")
    return {
        "overlimit": ours.hit,
        "redis-py INCR": client.incr,
        "throttled-py": bucket.limit,
        "limits": lambda key: moving.hit(item, key),
    }


def per_second(hit: Hit, threads: int, seconds: float) -> float:
    """Hits per second of so many threads together."""
    ends = time.perf_counter() + seconds
    counts: list[int] = []

    def run(key: str) -> None:
        for count in itertools.count(1):
            hit(key)
            if time.perf_counter() >= ends:
                counts.append(count)
                return

    workers = [threading.Thread(target=run, args=(f"user:{number}",)) for number in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - started)


def main() -> None:
    """Print hits per second by number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement (default 0.4)")
    seconds = parser.parse_args().seconds
    with redis_server() as socket:
        hits = contestants(socket)
        print(f"{'hits per second':16}" + "".join(f"{name:>24}" for name in hits))
        for threads in THREADS:
            rounds: dict[str, list[float]] = {name: [] for name in hits}
            for _ in range(ROUNDS):
                for name, hit in hits.items():
                    rounds[name].append(per_second(hit, threads, seconds))
            medians = {name: statistics.median(each) for name, each in rounds.items()}
            cells = [f"{rate:,.0f} (x{medians['overlimit'] / rate:.2f})" for rate in medians.values()]
            print(f"{threads:3} threads     " + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
