"""Limits for asyncio: `AsyncLimiter`, and the functions on several limiters that are awaited."""

from overlimit.aio.concurrency import AsyncConcurrency as AsyncConcurrency
from overlimit.aio.concurrency import AsyncSlot as AsyncSlot
from overlimit.aio.limiter import AsyncLimiter as AsyncLimiter
from overlimit.aio.several import acquire_all as acquire_all
from overlimit.aio.several import hit_all as hit_all
from overlimit.aio.several import peek_all as peek_all

__all__ = ["AsyncConcurrency", "AsyncLimiter", "AsyncSlot", "acquire_all", "hit_all", "peek_all"]
