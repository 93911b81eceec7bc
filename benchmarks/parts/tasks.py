"""Hits of tasks on an event loop, one after the other and all at once, beside the Limiter for threads.

On memory, shared memory and Redis at the other end of a unix socket, and waiting for one's turn. Nothing is
refused, and nobody has to wait for a limit. limits runs on redis.asyncio. It is left out on coredis: limits 5
cannot use coredis 6, and coredis 5 cannot be installed beside the tools of this project.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiolimiter
import limits
import redis.asyncio
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from pyrate_limiter import Duration, InMemoryBucket, Rate, RedisBucket
from pyrate_limiter import Limiter as PyrateLimiter

from measuring import timing
from measuring.loops import event_loop
from measuring.servers import redis_server, shared_memory
from measuring.turns import Effort, Found, Sample, Turn, contest
from overlimit import Limiter, MemoryStore, RedisStore, Store
from overlimit.aio import AsyncLimiter
from parts.peers import FEW_ENOUGH, PLENTY

TASKS = 100
SERIAL = 200
SECONDS = 0.02
"""Of a turn of a thread that times its calls one by one."""

Hit = Callable[[], Awaitable[Any]]
PEER_ITEM = limits.parse(f"{PLENTY}/minute")


def serial(loop: asyncio.AbstractEventLoop, hit: Hit) -> Sample:
    """Return the microseconds of a hit, each of which is awaited before the next."""

    async def go() -> float:
        began = time.perf_counter_ns()
        for _ in range(SERIAL):
            await hit()
        return (time.perf_counter_ns() - began) / SERIAL / 1e3

    return Sample(loop.run_until_complete(go()))


def one_by_one(loop: asyncio.AbstractEventLoop, hit: Hit) -> Sample:
    """Return the same of hits that are long enough to be timed one by one."""

    async def go() -> list[float]:
        taken = []
        for _ in range(SERIAL):
            began = time.perf_counter_ns()
            await hit()
            taken.append((time.perf_counter_ns() - began) / 1e3)
        return taken

    taken = loop.run_until_complete(go())
    return Sample(statistics.median(taken), taken)


def together(loop: asyncio.AbstractEventLoop, hit: Hit) -> Sample:
    """Return the microseconds of a hit, of tasks that all hit at once."""

    async def go() -> float:
        began = time.perf_counter_ns()
        await asyncio.gather(*(hit() for _ in range(TASKS)))
        return (time.perf_counter_ns() - began) / TASKS / 1e3

    return Sample(loop.run_until_complete(go()))


def in_thread(hit: Callable[[], object]) -> Sample:
    """Return the microseconds of a hit that blocks its thread."""
    began = time.perf_counter_ns()
    for _ in range(SERIAL):
        hit()
    return Sample((time.perf_counter_ns() - began) / SERIAL / 1e3)


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


def contests(effort: Effort) -> Found:
    rounds = effort.of(21, 2)
    with event_loop() as loop, redis_server() as socket, shared_memory() as shared:
        on_redis = RedisStore(f"unix://{socket}", timeout=5.0)
        stores: dict[str, tuple[Store, dict[str, Hit]]] = {
            "Memory": (MemoryStore(), peers_in_memory()),
            "Shared memory": (shared, {}),
            "Redis": (on_redis, loop.run_until_complete(peers_on_redis(socket))),
        }
        for name, (store, peers) in stores.items():
            awaited = one_by_one if name == "Redis" else serial
            for title, turn in {"one after the other": awaited, f"{TASKS} tasks at once": together}.items():
                yield contest(f"{name}, {title}", "us", turns(loop, store, peers, turn), rounds=rounds)
        waiting: dict[str, Turn] = {name: partial(serial, loop, call) for name, call in waiters().items()}
        yield contest("Waiting for one's turn, in memory", "us", waiting, rounds=rounds)


def turns(
    loop: asyncio.AbstractEventLoop,
    store: Store,
    peers: dict[str, Hit],
    turn: Callable[[asyncio.AbstractEventLoop, Hit], Sample],
) -> dict[str, Turn]:
    blocking, hit = own(store)
    awaited = {"overlimit, AsyncLimiter": hit, **peers}
    tasks = {name: partial(turn, loop, call) for name, call in awaited.items()}
    one = timing.one_by_one(timing.Statement("hit()", {"hit": blocking}), SECONDS)
    loop_of_thread = one if turn is one_by_one else partial(in_thread, blocking)
    return {"overlimit, Limiter in a loop": loop_of_thread, **tasks}
