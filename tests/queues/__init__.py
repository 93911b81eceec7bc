"""The same jobs in each queue, by its own workers, as the environment says: ``JOBS_PORT``, ``JOBS_LIMIT``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import redis

from overlimit import LeakyBucket, Limiter, RedisStore

URL = f"redis://127.0.0.1:{os.environ.get('JOBS_PORT', '6379')}"
CLIENT = redis.Redis.from_url(f"{URL}/1")
LIMITS: dict[str, Any] = {"window": "10/second", "line": LeakyBucket(1, per=0.2, capacity=1000)}
LIMITER = Limiter(
    LIMITS[os.environ.get("JOBS_LIMIT", "window")], name="jobs", store=RedisStore(f"{URL}/2", timeout=10)
)


def whose(number: int) -> str:
    """Return whose job it is: a function of its arguments."""
    assert isinstance(number, int)
    return "api.example.com"


def run(number: int) -> None:
    """Note that a job runs, and fail in the first run of the first one."""
    seconds, micros = CLIENT.time()
    before = CLIENT.rpush(f"runs:{number}", 1)
    CLIENT.rpush("ran", json.dumps([number, seconds + micros / 1e6]))
    if number == 0 and before == 1:
        raise ConnectionError("the first run of the first job fails")


def _noting(sleep: Any) -> Any:
    def noted(seconds: float, *others: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"].startswith("overlimit."):
            CLIENT.rpush("slept", seconds)
        return sleep(seconds, *others)

    return noted


time.sleep, asyncio.sleep = _noting(time.sleep), _noting(asyncio.sleep)
