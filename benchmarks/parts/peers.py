"""Others' limiters, each with what its users write for one limit; and ours, and the floor, beside them.

In each statement ``k`` is who is limited. Nothing is refused unless a name says so.
"""

from __future__ import annotations

from typing import Any

import limits
import throttled
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)
from pyrate_limiter import Duration, InMemoryBucket, Rate, RedisBucket, StateBucket, TokenBucket
from pyrate_limiter import Limiter as PyrateLimiter

from measuring.timing import Statement
from overlimit import Limiter, Store

PLENTY = 10**9
THREE = f"{PLENTY}/second; {PLENTY}/minute; {PLENTY}/hour"
FEW_ENOUGH = 1_000_000
"""A limiter that keeps a time for each hit is slow with more."""

KEPT = 1_000
"""So many times a moving window of limits keeps, and moves them all at each hit: so it is soon full here."""


def dict_update() -> Statement:
    return Statement("d[k] += 1", {"d": {f"user:{key}": 0 for key in range(100)}, "k": "user:1"})


def ours(policy: Any, store: Store, *, second: str = "", name: str = "default") -> Statement:
    """Return a hit by our own limiter, of one identifier or of two."""
    names = {"hit": Limiter(policy, store=store, name=name).hit, "k": "user:1"}
    return Statement("hit(k, second)", {**names, "second": second}) if second else Statement("hit(k)", names)


def of_limits(strategy: type[RateLimiter], storage: Storage, most: int = PLENTY) -> Statement:
    """Return a hit of limits, the engine of Flask-Limiter."""
    item = limits.parse(f"{most}/minute")
    return Statement("hit(item, k)", {"hit": strategy(storage).hit, "item": item, "k": "user:1"})


def of_throttled(using: str, store: Any) -> Statement:
    limiter = throttled.Throttled(using=using, quota=throttled.per_min(PLENTY), store=store)
    return Statement("limit(k)", {"limit": limiter.limit, "k": "user:1"})


def of_pyrate(bucket: Any) -> Statement:
    acquire = PyrateLimiter(bucket).try_acquire
    return Statement("acquire(k, blocking=False)", {"acquire": acquire, "k": "user:1"})


def peers_in_memory() -> dict[str, Statement]:
    rates = [Rate(FEW_ENOUGH, Duration.MINUTE)]
    return {
        "limits, fixed window": of_limits(FixedWindowRateLimiter, MemoryStorage()),
        "limits, sliding window counter": of_limits(SlidingWindowCounterRateLimiter, MemoryStorage()),
        "limits, moving window, a refusal": of_limits(MovingWindowRateLimiter, MemoryStorage(), KEPT),
        "throttled-py, fixed window": of_throttled("fixed_window", throttled.MemoryStore()),
        "throttled-py, sliding window": of_throttled("sliding_window", throttled.MemoryStore()),
        "throttled-py, token bucket": of_throttled("token_bucket", throttled.MemoryStore()),
        "pyrate-limiter, log": of_pyrate(InMemoryBucket(rates)),
        "pyrate-limiter, token bucket": of_pyrate(StateBucket(rates, algorithm=TokenBucket())),
    }


def peers_on_redis(socket: str, client: Any) -> dict[str, Statement]:
    storage = RedisStorage(f"redis+unix://{socket}")
    store = throttled.RedisStore(server=f"unix://{socket}")
    log = RedisBucket.init([Rate(FEW_ENOUGH, Duration.MINUTE)], client, "pyrate")
    return {
        "limits, fixed window": of_limits(FixedWindowRateLimiter, storage),
        "limits, sliding window counter": of_limits(SlidingWindowCounterRateLimiter, storage),
        "limits, moving window, a refusal": of_limits(MovingWindowRateLimiter, storage, KEPT),
        "throttled-py, fixed window": of_throttled("fixed_window", store),
        "throttled-py, sliding window": of_throttled("sliding_window", store),
        "throttled-py, token bucket": of_throttled("token_bucket", store),
        "pyrate-limiter, log": of_pyrate(log),
    }
