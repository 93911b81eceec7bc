"""Hits on a Redis server that is as far away as the next rack: 0 and 0.5 ms added to each round trip."""

from __future__ import annotations

import contextlib
from itertools import product

import limits
import redis
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter

from measuring.delays import delayed
from measuring.servers import redis_server
from measuring.timing import Statement, one_by_one
from measuring.turns import Contest, Effort, Found, contest
from overlimit import RedisStore
from parts.peers import PLENTY, THREE, of_limits, ours

SECOND = "ip:203.0.113.7"
ADDED = {"no latency added": 0.0, "0.5 ms added": 0.0005}


def contests(effort: Effort) -> Found:
    with redis_server() as server:
        for title, seconds in ADDED.items():
            with delayed(server, seconds) if seconds else contextlib.nullcontext(server) as socket:
                yield hits(f"A hit with {title}", socket, effort)


def hits(title: str, socket: str, effort: Effort) -> Contest:
    store = RedisStore(f"unix://{socket}", timeout=5.0)
    client = redis.Redis(unix_socket_path=socket)
    storage = RedisStorage(f"redis+unix://{socket}")
    statements = {
        "redis-py INCR": Statement("incr('count')", {"incr": client.incr}),
        "overlimit, one sliding window": ours(f"{PLENTY}/minute", store, name="one"),
        "overlimit, 2 identifiers x 3 windows": ours(THREE, store, second=SECOND, name="six"),
        "limits, fixed window": of_limits(FixedWindowRateLimiter, storage),
        "limits, 2 identifiers x 3 fixed windows": six_of_limits(storage),
    }
    turns = {name: one_by_one(each, 4 * effort.seconds) for name, each in statements.items()}
    return contest(title, "us", turns)


def six_of_limits(storage: RedisStorage) -> Statement:
    """Return a hit of each limit by each identifier, which is a call each."""
    pairs = list(product(limits.parse_many(THREE), ("user:1", SECOND)))
    names = {"hit": FixedWindowRateLimiter(storage).hit, "pairs": pairs}
    return Statement("for item, k in pairs: hit(item, k)", names)
