"""Rate limiting that never admits more than it promises.

Several limits for several identifiers are decided in one atomic step, in memory or in Redis::

    from overlimit import Limiter

    limiter = Limiter("10/second; 120/minute; 240/hour")
    decision = limiter.hit("ip:203.0.113.7", "user:42")
    if not decision:
        print(f"come back in {decision.retry_after} s")
"""

from __future__ import annotations

from overlimit._core import Decision, __version__, hit_all
from overlimit.clocks import ClockLike, ManualClock
from overlimit.details import Detail
from overlimit.errors import (
    InvalidLimit,
    OverlimitError,
    RateLimitExceeded,
    ScriptError,
    StoreConfigError,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from overlimit.limiter import Limiter, OnError
from overlimit.limits import (
    FixedWindow,
    LeakyBucket,
    Limit,
    LimitsLike,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.mirrored import over_limit, over_limit_multi, over_limit_multi_lua, over_limit_sliding_window
from overlimit.penalty import Penalty
from overlimit.stores import MemoryStore, RedisStore, Store, StoreLike

__all__ = [
    "ClockLike",
    "Decision",
    "Detail",
    "FixedWindow",
    "InvalidLimit",
    "LeakyBucket",
    "Limit",
    "Limiter",
    "LimitsLike",
    "ManualClock",
    "MemoryStore",
    "OnError",
    "OverlimitError",
    "Penalty",
    "RateLimitExceeded",
    "RedisStore",
    "ScriptError",
    "SlidingLog",
    "SlidingWindow",
    "SlidingWindowCounter",
    "Store",
    "StoreConfigError",
    "StoreError",
    "StoreLike",
    "StoreTimeout",
    "StoreUnavailable",
    "TokenBucket",
    "__version__",
    "hit_all",
    "over_limit",
    "over_limit_multi",
    "over_limit_multi_lua",
    "over_limit_sliding_window",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
