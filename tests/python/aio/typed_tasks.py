"""Limits in asyncio as a user's program has them; what a type checker must refuse is marked."""

from __future__ import annotations

import asyncio
from typing import assert_type

from overlimit import Decision, TokenBucket
from overlimit.aio import AsyncConcurrency, AsyncLimiter, AsyncSlot, acquire_all, hit_all, peek_all

limiter = AsyncLimiter("10/second; 100/minute", name="api", store="memory://", on_error="allow")
other = AsyncLimiter([TokenBucket(5, per=1)])
slots = AsyncConcurrency(3, longest=5)


@limiter.throttle("api.example.com", lambda page, *_, **__: f"page:{page}", timeout=5)
async def fetch(page: int, *, fresh: bool = False) -> str:
    return f"page {page} {fresh}"


async def main() -> None:
    decision = await limiter.hit("user:42", b"\x00", cost=2)
    assert_type(decision, Decision)
    assert_type(await hit_all([(limiter, "a"), (other, "b", 2)]), Decision)
    assert_type(await peek_all([(limiter, "a")]), Decision)
    assert_type(await acquire_all([(limiter, "a")], timeout=None), Decision)
    assert_type(await fetch(1, fresh=True), str)
    assert_type(await limiter.settle(decision, 3), Decision)
    assert len(await limiter.hit_many(["a", "b"])) == 2
    assert_type(await limiter.with_limits("5/second").acquire("a", timeout=1), Decision)
    assert_type(await limiter.ping(), float)
    async with limiter.throttle("a") as admitted:
        assert_type(admitted, Decision)
    async with slots.slot("user:42") as slot:
        assert_type(slot, AsyncSlot)
    assert_type(await slots.acquire("user:42", timeout=1), AsyncSlot)
    assert_type(await slots.enter("user:42"), AsyncSlot | None)
    await fetch("one")  # type: ignore[arg-type]
    await limiter.hit(42)  # type: ignore[arg-type]
    await limiter.hit("a", cost="2")  # type: ignore[arg-type]


asyncio.run(main())
