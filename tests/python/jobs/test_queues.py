"""Jobs of each queue, on a real Redis and by several of its own workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from servers.patience import eventually
from servers.redis_server import RedisServer

pytestmark = pytest.mark.check

COMMANDS = {
    "celery": "celery -A queues.of_celery:app worker -c 2 -l WARNING --without-gossip --without-mingle",
    "rq": "queues.of_rq",
    "arq": "queues.of_arq",
    "dramatiq": "dramatiq queues.of_dramatiq -p 1 -t 2",
}
TESTS = Path(__file__).parents[2]
JOBS = 25
PACE = 0.2
"""Seconds from one turn to the next, of ``queues.LIMITS["line"]``."""
SLACK = 0.1
"""Seconds between the decision on the first job and the instant that it notes, at the most."""


class Workers:
    """The workers of one queue, each a process with those that it starts."""

    def __init__(self, kind: str, server: RedisServer, limit: str, ending: ExitStack) -> None:
        self._kind, self._server, self._ending = kind, server, ending
        self._environment = {
            **os.environ,
            "JOBS_PORT": str(server.port),
            "JOBS_LIMIT": limit,
            "PYTHONPATH": str(TESTS),
        }

    def enqueue(self, count: int) -> None:
        code = f"from queues.of_{self._kind} import enqueue; enqueue({count})"
        subprocess.run([sys.executable, "-c", code], env=self._environment, check=True)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *COMMANDS[self._kind].split()]
        started = subprocess.Popen(command, env=self._environment, start_new_session=True)
        self._ending.callback(self._end, started)
        return started

    def kill(self, worker: subprocess.Popen[bytes]) -> set[int]:
        """Kill it, and return the jobs that its framework does not run again by itself."""
        self._end(worker)
        with self._server.client() as client:
            client.delete("rq:scheduler-lock:default")  # which a scheduler that was killed keeps for a minute
            return {int(each.partition(b":")[0]) for each in client.zrange("rq:wip:default", 0, -1)}

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def ran(self) -> list[tuple[int, float]]:
        """Return which jobs have run, and when, in order."""
        with self._server.client(1) as client:
            notes = client.lrange("ran", 0, -1)
            return sorted((tuple(json.loads(note)) for note in notes), key=lambda each: each[1])

    def queued(self) -> int:
        """Return how many messages no worker of Celery has taken yet."""
        with self._server.client() as client:
            return int(client.llen("celery"))

    def longest_sleep(self) -> float:
        with self._server.client(1) as client:
            return max(map(float, client.lrange("slept", 0, -1)), default=0.0)


@pytest.fixture
def start_workers(start_redis: Callable[..., RedisServer]) -> Iterator[Callable[[str, str], Workers]]:
    with ExitStack() as ending:
        yield lambda kind, limit: Workers(kind, start_redis(), limit, ending)


def numbers(ran: list[tuple[int, float]]) -> list[int]:
    return [number for number, _ in ran]


def is_paced(ran: list[tuple[int, float]], pace: float) -> bool:
    """Return whether no job ran before its turn, counted from the first; one may run again."""
    first: dict[int, float] = {}
    for number, at in ran:
        first.setdefault(number, at)
    began = min(first.values())
    return all(at - began >= place * pace - SLACK for place, at in enumerate(sorted(first.values())))


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_window_holds_over_all_workers_and_no_retry_is_used_up(start_workers, kind):
    workers = start_workers(kind, "window")
    workers.enqueue(JOBS)
    for _ in range(2):
        workers.start()
    eventually(lambda: len(workers.ran()) > JOBS, within=120)
    ran = workers.ran()
    # The first job has failed once, which used up its only retry; all others have run at their first try.
    assert sorted(numbers(ran)) == sorted([0, *range(JOBS)])
    assert all(at - ran[0][1] > place // 10 - SLACK for place, (_, at) in enumerate(ran))
    assert ran[-1][1] - ran[0][1] < 3 * (JOBS + 1) / 10
    assert workers.longest_sleep() <= 0.05


@pytest.mark.check
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_line_is_kept_and_no_job_is_lost_when_a_worker_is_killed(start_workers, kind):
    workers = start_workers(kind, "line")
    killed = workers.start()
    workers.enqueue(JOBS)
    # Between BRPOP and its note of what is unacknowledged, kombu may lose a message.
    eventually(lambda: len(workers.ran()) >= 5 and not workers.queued(), within=120)
    left, before = workers.kill(killed), workers.ran()
    # Once the turns of all jobs have passed, they ask for others, and do not begin in a burst.
    (_, began), *_ = before
    eventually(lambda: time.time() > began + JOBS * PACE + 5.5, within=60)
    workers.start()
    eventually(lambda: set(numbers(workers.ran())) | left == set(range(JOBS)), within=120)
    after = workers.ran()[len(before) :]
    assert is_paced(before, PACE)
    assert is_paced(after, PACE)
    assert len(left) <= 1
