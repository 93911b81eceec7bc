"""The jobs as tasks of Celery."""

from __future__ import annotations

from celery import Celery

from overlimit.jobs import LimitedTask
from queues import LIMITER, URL, run, whose

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
