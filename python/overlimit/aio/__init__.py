"""Limits for asyncio: `AsyncLimiter`, and `hit_all` and `peek_all` that are awaited."""

from overlimit.aio.limiter import AsyncLimiter as AsyncLimiter
from overlimit.aio.limiter import hit_all as hit_all
from overlimit.aio.limiter import peek_all as peek_all
