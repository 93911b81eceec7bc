"""The jobs as functions of RQ."""

from __future__ import annotations

import redis
from rq import Queue, Retry, Worker

from overlimit.jobs import limited
from queues import LIMITER, URL, run, whose


@limited(LIMITER, whose)
def work(number: int) -> None:
    run(number)


def enqueue(count: int) -> None:
    queue = Queue(connection=redis.Redis.from_url(f"{URL}/0"))
    for number in range(count):
        queue.enqueue(work, number, retry=Retry(max=1), job_id=str(number))


if __name__ == "__main__":
    connection = redis.Redis.from_url(f"{URL}/0")
    Worker(["default"], connection=connection).work(with_scheduler=True, logging_level="WARNING")
