"""Limiters of one name, and what they admit."""

from __future__ import annotations

from typing import Any

from overlimit import Limiter, RedisStore, SlidingLog

HOUR = SlidingLog(5, 3600)


def limiter_on(store: RedisStore, limits: Any = HOUR, **options: Any) -> Limiter:
    return Limiter(limits, name="api", store=store, **options)


def admitted(limiter: Limiter, calls: int, *identifiers: str) -> int:
    return sum(limiter.hit(*identifiers or "a").allowed for _ in range(calls))
