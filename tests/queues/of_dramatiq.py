"""The jobs as actors of Dramatiq."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

from overlimit.jobs import limited
from queues import LIMITER, URL, run, whose

# So that the messages of a worker that was killed come back within seconds.
broker = RedisBroker(url=f"{URL}/0", heartbeat_timeout=6000, maintenance_chance=1_000_000)
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=1, min_backoff=1)
@limited(LIMITER, whose)
def work(number: int) -> None:
    run(number)


def enqueue(count: int) -> None:
    for number in range(count):
        work.send(number)
