"""Hits of many Python threads at once, in memory and on Redis: how many a second, all together."""

from __future__ import annotations

from collections.abc import Mapping

import redis
import throttled
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter

from measuring.servers import redis_server
from measuring.timing import Statement, in_threads
from measuring.turns import Contest, Contestant, Effort, Found
from overlimit import MemoryStore, RedisStore
from parts.peers import PLENTY, dict_update, of_limits, of_throttled, ours

IN_MEMORY = (1, 2, 4, 8, 16, 32, 64)
ON_REDIS = (1, 2, 8, 16, 32)
ONE = f"{PLENTY}/minute"


def contests(effort: Effort) -> Found:
    hits = {
        "d[k] += 1": dict_update(),
        "overlimit": ours(ONE, MemoryStore()),
        "limits": of_limits(FixedWindowRateLimiter, MemoryStorage()),
        "throttled-py": of_throttled("fixed_window", throttled.MemoryStore()),
    }
    yield by_threads("Hits in memory by threads", hits, IN_MEMORY, 2 * effort.seconds, 50, effort)
    with redis_server() as socket:
        yield by_threads(
            "Hits on Redis by threads", on_redis(socket), ON_REDIS, 6 * effort.seconds, 1, effort
        )


def on_redis(socket: str) -> dict[str, Statement]:
    return {
        "redis-py INCR": Statement("incr(k)", {"incr": redis.Redis(unix_socket_path=socket).incr}),
        "overlimit": ours(ONE, RedisStore(f"unix://{socket}", timeout=5.0)),
        "limits": of_limits(FixedWindowRateLimiter, RedisStorage(f"redis+unix://{socket}")),
        "throttled-py": of_throttled("fixed_window", throttled.RedisStore(server=f"unix://{socket}")),
    }


def by_threads(
    title: str,
    hits: Mapping[str, Statement],
    counts: tuple[int, ...],
    seconds: float,
    between_looks: int,
    effort: Effort,
) -> Contest:
    """Return a contest of so many threads each, and each thread has a key of its own."""
    points = []
    for count in counts[: effort.of(len(counts), 2)]:
        for name, hit in hits.items():
            own = [hit.having(k=f"user:{key}") for key in range(count)]
            points.append(Contestant(name, in_threads(own, seconds, between_looks), count))
    return Contest(title, "hits/s", points, "threads", rounds=effort.of(5, 1))
