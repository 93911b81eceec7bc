"""Hits on a Redis server at the other end of a unix socket, beside the smallest script, called from C++."""

from __future__ import annotations

import statistics
import subprocess
import time
from functools import partial
from typing import Any

import redis

from measuring.servers import redis_server
from measuring.timing import Statement, in_threads, one_by_one
from measuring.turns import Contest, Effort, Found, Sample, Turn, contest
from overlimit import Limiter, RedisStore
from parts.engine import program
from parts.peers import PLENTY, THREE, ours, peers_on_redis

THREADS = 16
ONE = f"{PLENTY}/minute"


def contests(effort: Effort) -> Found:
    with redis_server() as socket, redis.Redis(unix_socket_path=socket) as client:
        yield one_after_the_other(socket, client, effort)
        yield shares_of_a_core(socket, client, effort)


def one_after_the_other(socket: str, client: Any, effort: Effort) -> Contest:
    seconds = 1.5 * effort.seconds
    from_cpp: dict[str, Turn] = {
        "the smallest script, from C++": partial(floor, socket, "script", seconds),
        "PING, from C++": partial(floor, socket, "ping", seconds),
    }
    from_python = {
        "redis-py INCR": Statement("incr('count')", {"incr": client.incr}),
        **ours_on_redis(socket),
        **peers_on_redis(socket, client),
    }
    turns = {name: one_by_one(statement, seconds) for name, statement in from_python.items()}
    return contest("One hit after the other", "us", {**from_cpp, **turns}, rounds=2 * effort.rounds)


def floor(socket: str, what: str, seconds: float) -> Sample:
    command = [str(program("redis_floor")), socket, what, str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    latencies = [int(line) / 1e3 for line in done.stdout.splitlines()]
    return Sample(statistics.median(latencies), latencies)


def ours_on_redis(socket: str) -> dict[str, Statement]:
    store = RedisStore(f"unix://{socket}", timeout=5.0)
    refused = Limiter("1/hour", name="refused", store=store)
    refused.hit("user:1")
    return {
        "overlimit, one sliding window": ours(ONE, store, name="one"),
        "overlimit, one token bucket": ours(f"{PLENTY}/minute burst 1000000", store, name="bucket"),
        "overlimit, three sliding windows": ours(THREE, store, name="three"),
        "overlimit, 2 identifiers x 3 windows": ours(THREE, store, second="ip:192.0.2.1", name="both"),
        "overlimit, a refusal": Statement("hit(k)", {"hit": refused.hit, "k": "user:1"}),
    }


def shares_of_a_core(socket: str, client: Any, effort: Effort) -> Contest:
    """Return what the server computes while many threads hit: with 1, it is what limits them."""
    hit = ours(ONE, RedisStore(f"unix://{socket}", timeout=5.0), name="busy")
    incr = Statement("incr(k)", {"incr": client.incr})
    turns: dict[str, Turn] = {
        f"{name}, {threads} thread{'s' * (threads > 1)}": partial(
            share_of_a_core,
            client,
            in_threads([each.having(k=f"user:{key}") for key in range(threads)], 6 * effort.seconds, 1),
        )
        for name, each in {"redis-py INCR": incr, "overlimit": hit}.items()
        for threads in (1, THREADS)
    }
    return contest("What the server takes of a core", "cores", turns, rounds=effort.of(5, 1))


def share_of_a_core(client: Any, turn: Turn) -> Sample:
    before, began = processor_seconds(client), time.perf_counter()
    turn()
    return Sample((processor_seconds(client) - before) / (time.perf_counter() - began))


def processor_seconds(client: Any) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
