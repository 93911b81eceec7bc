"""First figures, side by side in one run: python benchmarks/compare.py [--seconds S].

Every line is a ratio within this run: the contestants take turns, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import limits
import redis
import throttled

from overlimit import Limiter, MemoryStore

PLENTY = 10**9
ROUNDS = 9


def nanoseconds(call: Callable[[], object], seconds: float) -> float:
    """Nanoseconds per call, the loop's own cost included."""
    calls, started = 0, time.perf_counter_ns()
    deadline = started + int(seconds * 1e9)
    while time.perf_counter_ns() < deadline:
        for _ in range(200):
            call()
        calls += 200
    return (time.perf_counter_ns() - started) / calls


def compare(title: str, contestants: dict[str, Callable[[], object]], seconds: float) -> None:
    """Print each contestant's median and its ratio to the first."""
    rounds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, call in contestants.items():
            rounds[name].append(nanoseconds(call, seconds / ROUNDS / len(contestants)))
    medians = {name: statistics.median(times) for name, times in rounds.items()}
    base = next(iter(medians.values()))
    print(f"\n{title}")
    for name, median in medians.items():
        print(f"  {name:44}{median / 1e3:10.2f} us  x{median / base:.2f}")


def memory_contestants() -> dict[str, Callable[[], object]]:
    """One hit with one limit in memory, against a dict and against others."""
    counts = {"ip:1": 0}

    def dict_add() -> None:
        counts["ip:1"] += 1

    sliding = Limiter(f"{PLENTY}/minute", store=MemoryStore())
    bucket = Limiter(f"{PLENTY}/minute burst 1000000", store=MemoryStore())
    peer = limits.strategies.MovingWindowRateLimiter(limits.storage.MemoryStorage())
    peer_fixed = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    peer_item = limits.parse("1000/minute")
    peer_many = limits.parse(f"{PLENTY}/minute")
    throttle = throttled.Throttled(
        key="ip:1", using="sliding_window", quota=throttled.per_min(PLENTY), store=throttled.MemoryStore()
    )
    return {
        "d[k] += 1 in a function": dict_add,
        "overlimit sliding window": lambda: sliding.hit("ip:1"),
        "overlimit token bucket": lambda: bucket.hit("ip:1"),
        "limits fixed window": lambda: peer_fixed.hit(peer_many, "ip:1"),
        "limits moving window (1000/minute)": lambda: peer.hit(peer_item, "ip:1"),
        "throttled-py sliding window": throttle.limit,
    }


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """A redis-server of our own on a unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "redis.sock")
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not pathlib.Path(socket).exists():
                time.sleep(0.01)
            yield socket
        finally:
            server.terminate()
            server.wait()


def redis_contestants(socket: str) -> dict[str, Callable[[], object]]:
    """One hit on Redis, against redis-py's PING and against others."""
    client = redis.Redis(unix_socket_path=socket)
    store = f"unix://{socket}"
    sliding = Limiter(f"{PLENTY}/minute", name="default", store=store)
    three = Limiter("1000000/second; 100000000/minute; 1000000000/hour", store=store, name="three")
    peer = limits.strategies.FixedWindowRateLimiter(
        limits.storage.storage_from_string(f"redis+unix://{socket}")
    )
    peer_item = limits.parse(f"{PLENTY}/minute")
    return {
        "redis-py PING": client.ping,
        "overlimit sliding window": lambda: sliding.hit("ip:1"),
        "overlimit 3 windows x 2 identifiers": lambda: three.hit("ip:1", "user:2"),
        "limits fixed window": lambda: peer.hit(peer_item, "ip:1"),
    }


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="per comparison")
    seconds = parser.parse_args().seconds
    compare("memory, one limit, one identifier", memory_contestants(), seconds)
    with redis_server() as socket:
        compare("Redis on a unix socket", redis_contestants(socket), seconds)


if __name__ == "__main__":
    main()
