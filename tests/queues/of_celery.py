"""The jobs as tasks of Celery."""

from __future__ import annotations

import redis
from celery import Celery

from overlimit.jobs import LimitedTask
from queues import LIMITER, URL, run, whose

# Kombu asks for redis-py 6.1 or later, and arq for one below 6: what kombu uses of it is in both.
redis.VERSION = max(redis.VERSION, (6, 1, 0))

app = Celery(broker=f"{URL}/0")
# So that the jobs of a worker that was killed come back within seconds.
restoring = {"visibility_timeout": 6, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
app.conf.update(broker_transport_options=restoring, task_ignore_result=True)


@app.task(
    base=LimitedTask,
    limiter=LIMITER,
    identifiers=whose,
    autoretry_for=(ConnectionError,),
    max_retries=1,
    default_retry_delay=0,
)
def work(number: int) -> None:
    run(number)


def enqueue(count: int) -> None:
    for number in range(count):
        work.delay(number)
