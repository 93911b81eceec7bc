"""Hits of tasks on an event loop, in one run: python benchmarks/tasks.py [--rounds N].

Serial hits and those of 100 tasks at once, on memory, shared memory and Redis at the other end of a unix
socket, and waiting for one's turn, beside the Limiter for threads and others' limiters. Nothing is refused,
and nobody has to wait for a limit. The contestants take turns; each is compared with the first one in the
same round, and the medians over the rounds count. Needs the dependency group ``bench``. limits runs on
redis.asyncio. It is left out on coredis: limits 5 cannot use coredis 6, and coredis 5 cannot be installed
beside the tools of this project.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiolimiter
import limits
import redis.asyncio
from compare import PLENTY, redis_server
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from pyrate_limiter import Duration, InMemoryBucket, Rate, RedisBucket
from pyrate_limiter import Limiter as PyrateLimiter
from turns import print_ratios

from overlimit import Limiter, MemoryStore, RedisStore, SharedMemoryStore, Store
from overlimit.aio import AsyncLimiter

TASKS = 100
SERIAL = 200

Hit = Callable[[], Awaitable[Any]]
PEER_ITEM = limits.parse(f"{PLENTY}/minute")
FEW_ENOUGH = 1_000_000  # a limiter that keeps a time for each hit is slow with more


def serial(loop: asyncio.AbstractEventLoop, hit: Hit) -> float:
    """Return the microseconds of a hit, each of which is awaited before the next."""

    async def go() -> float:
        began = time.perf_counter_ns()
        for _ in range(SERIAL):
            await hit()
        return (time.perf_counter_ns() - began) / SERIAL / 1e3

    return loop.run_until_complete(go())


def together(loop: asyncio.AbstractEventLoop, hit: Hit) -> float:
    """Return the microseconds of a hit, of tasks that all hit at once."""

    async def go() -> float:
        began = time.perf_counter_ns()
        await asyncio.gather(*(hit() for _ in range(TASKS)))
        return (time.perf_counter_ns() - began) / TASKS / 1e3

    return loop.run_until_complete(go())


def in_thread(hit: Callable[[], object]) -> float:
    """Return the microseconds of a hit that blocks its thread."""
    began = time.perf_counter_ns()
    for _ in range(SERIAL):
        hit()
    return (time.perf_counter_ns() - began) / SERIAL / 1e3


def pyrate(bucket: Any) -> Hit:
    limiter = PyrateLimiter(bucket)
    return lambda: limiter.try_acquire_async("ip:1", blocking=False)


def of_limits(storage: Any) -> Hit:
    return partial(FixedWindowRateLimiter(storage).hit, PEER_ITEM, "ip:1")


def own(store: Store) -> tuple[Callable[[], object], Hit]:
    """Return the hit of the Limiter and of the AsyncLimiter, which are one policy."""
    limit = f"{PLENTY}/minute"
    limiter = Limiter(limit, name="benchmark", store=store)
    awaited = AsyncLimiter(limit, name="benchmark", store=store)
    return partial(limiter.hit, "ip:1"), partial(awaited.hit, "ip:1")


def peers_in_memory() -> dict[str, Hit]:
    return {
        "aiolimiter": aiolimiter.AsyncLimiter(PLENTY, 60).acquire,
        "limits, fixed window": of_limits(MemoryStorage()),
        "pyrate-limiter": pyrate(InMemoryBucket([Rate(FEW_ENOUGH, Duration.MINUTE)])),
    }


async def peers_on_redis(socket: str) -> dict[str, Hit]:
    client = redis.asyncio.Redis(unix_socket_path=socket)
    bucket = await RedisBucket.init([Rate(FEW_ENOUGH, Duration.MINUTE)], client, "benchmark")
    url = f"async+redis+unix://{socket}"
    return {
        "redis.asyncio PING": client.ping,
        "limits, fixed window": of_limits(RedisStorage(url, implementation="redispy")),
        "pyrate-limiter": pyrate(bucket),
    }


def waiters() -> dict[str, Hit]:
    """Return what waits for its turn, which is at once."""
    limiter = AsyncLimiter(f"{PLENTY}/minute", store=MemoryStore())
    throttle = limiter.throttle("ip:1")
    others = aiolimiter.AsyncLimiter(PLENTY, 60)
    peer = PyrateLimiter(InMemoryBucket([Rate(FEW_ENOUGH, Duration.MINUTE)]))

    async def nothing() -> None: ...

    async def throttled() -> None:
        async with throttle:
            pass

    async def of_aiolimiter() -> None:
        async with others:
            pass

    return {
        "a coroutine function that does nothing": nothing,
        "overlimit, await acquire(...)": partial(limiter.acquire, "ip:1"),
        "overlimit, async with throttle(...)": throttled,
        "aiolimiter, async with": of_aiolimiter,
        "pyrate-limiter, blocking": lambda: peer.try_acquire_async("ip:1", blocking=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Hits of tasks on an event loop.")
    parser.add_argument("--rounds", type=int, default=20, help="default: %(default)s")
    rounds = parser.parse_args().rounds
    shared = SharedMemoryStore(f"bench-{os.getpid()}")
    with contextlib.closing(asyncio.new_event_loop()) as loop, redis_server() as socket:

        def compare(name: str, store: Store, peers: dict[str, Hit]) -> None:
            blocking, hit = own(store)
            awaited = {"overlimit, AsyncLimiter": hit, **peers}
            threads = {"overlimit, Limiter in a loop": partial(in_thread, blocking)}
            for title, turn in {"one after the other": serial, f"{TASKS} tasks at once": together}.items():
                tasks = {each: partial(turn, loop, call) for each, call in awaited.items()}
                print_ratios(f"{name}, {title}", {**threads, **tasks}, rounds)

        compare("memory", MemoryStore(), peers_in_memory())
        compare("shared memory", shared, {})
        on_redis = RedisStore(f"unix://{socket}", timeout=5.0)
        compare("Redis", on_redis, loop.run_until_complete(peers_on_redis(socket)))
        waiting = {name: partial(serial, loop, call) for name, call in waiters().items()}
        print_ratios("waiting for one's turn, in memory", waiting, rounds)
    shared.unlink()


if __name__ == "__main__":
    main()
