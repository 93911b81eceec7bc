"""The jobs as functions of arq."""

from __future__ import annotations

import asyncio
from typing import Any

import arq
from arq.connections import RedisSettings
from arq.worker import create_worker

from overlimit.jobs import limited
from queues import LIMITER, URL, run, whose


@limited(LIMITER, whose)
async def work(ctx: dict[str, Any], number: int) -> None:
    try:
        run(number)
    except ConnectionError:
        raise arq.Retry from None


class WorkerSettings:
    functions = (work,)
    redis_settings = RedisSettings.from_dsn(f"{URL}/0")
    max_tries = 2
    poll_delay = 0.05
    keep_result = 0


def enqueue(count: int) -> None:
    async def enqueued() -> None:
        pool = await arq.create_pool(WorkerSettings.redis_settings)
        for number in range(count):
            await pool.enqueue_job("work", number)
        await pool.aclose()

    asyncio.run(enqueued())


if __name__ == "__main__":
    worker = create_worker(WorkerSettings)
    # So that the jobs of a worker that was killed come back within seconds.
    worker.in_progress_timeout_s = 6
    worker.run()
