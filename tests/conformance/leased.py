"""Limiters that lease, and what is known of them."""

from __future__ import annotations

import re
from typing import Any

from overlimit import FixedWindow, Limiter, RedisStore
from programs import output_of
from servers.patience import PATIENCE
from servers.redis_server import RedisServer

MANY = FixedWindow(1000, per=3600)


def limiter_of(store: Any, limits: Any = MANY, **options: Any) -> Limiter:
    return Limiter(limits, **{"name": "api", "store": store, **options})


def held(limiter: Any) -> int:
    return limiter.stats()["held"]


def warmed(store: Any, limits: Any = MANY, least: int = 10, **options: Any) -> tuple[Limiter, int]:
    """Return a limiter that holds units of ``a``, and how often it was hit."""
    limiter = limiter_of(store, limits, **options)
    for hits in range(1, 200):
        assert limiter.hit("a")
        if held(limiter) >= least:
            return limiter, hits
    raise AssertionError(f"nothing is leased: {limiter.stats()}")


def used(strict: RedisStore, limits: Any = MANY, most: int = 1000, **options: Any) -> int:
    """Return what the server has counted of ``a``."""
    return most - limiter_of(strict, limits, **options).peek("a", cost=0).remaining


def elsewhere(store: RedisStore, url: str, what: str, limits: str = "FixedWindow(1000, per=3600)") -> str:
    """Do something with the limiter ``api`` in another process, which leases nothing."""
    return output_of(
        f"from overlimit import *; import sys\n"
        f"store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE})\n"
        f"limiter = Limiter({limits}, name='api', store=store)\n{what}",
        url,
        store._shown["prefix"],
    )


def calls_of(server: RedisServer) -> dict[str, int]:
    """Return how often each command that runs a script was given."""
    stats = server.ask("INFO", "commandstats").decode()
    return {
        name: int(calls)
        for name, calls in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats)
        if name in {"eval", "evalsha"}
    }
