"""A client that learns uses what a server grants whose limit moves, and is hardly ever refused."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import httpx
import pytest

from overlimit import Limiter, SlidingWindow
from overlimit.httpx import ThrottledTransport
from servers.moving_limit import MovingLimit, Phase, running

MOST, PERIOD = 60, 1.5


def ask(port: int, store: str, seconds: float, threads: int, learnt) -> None:
    """Ask as often as the limiter allows; put the number that was learnt into a queue."""
    limiter = Limiter(SlidingWindow(MOST, per=PERIOD), name="api", store=store)
    transport = ThrottledTransport(limiter, learn=True, retries=0)
    until = time.monotonic() + seconds

    def go() -> None:
        while time.monotonic() < until:
            client.get(f"http://127.0.0.1:{port}/")

    with httpx.Client(transport=transport, trust_env=False, timeout=60) as client:
        working = [threading.Thread(target=go) for _ in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    (host,) = transport.stats()["learnt"].values()
    learnt.put(host["number"])


def asked(server: MovingLimit, processes: int) -> list[int]:
    """Have so many processes ask a server for all of its phases; return the numbers that they have learnt."""
    store = "memory://" if processes == 1 else f"shm://moving-{os.getpid()}"
    context = multiprocessing.get_context("spawn")
    learnt = context.Queue()
    with running(server):
        arguments = (server.port, store, server.seconds + PERIOD, 8 // processes or 1, learnt)
        started = [context.Process(target=ask, args=arguments) for _ in range(processes)]
        for process in started:
            process.start()
        numbers = [learnt.get(timeout=120) for _ in started]
        for process in started:
            process.join()
    return numbers


def says_quota(limit: int, left: int, reset: float) -> str:
    return f'RateLimit-Policy: "a";q={limit};w={PERIOD}\r\nRateLimit: "a";r={left};t={reset:.3f}\r\n'


SAYS = pytest.mark.parametrize("says", [None, says_quota], ids=["silent", "says its quota"])


@pytest.mark.parametrize("processes", [1, 8])
@SAYS
@pytest.mark.prove
def test_less_than_a_fiftieth_is_refused_and_most_is_used(says, processes, shared_memory):
    phases = [Phase(20, 72), Phase(30, 24), Phase(30, 48)]
    server = MovingLimit(phases, PERIOD, says)
    numbers = asked(server, processes)
    assert len(server.refused) < 0.02 * (len(server.admitted) + len(server.refused))
    assert len(server.admitted) >= 0.85 * server.free(MOST)
    assert max(numbers) <= 2.5 * min(numbers), "they converge"


def test_a_limit_that_falls_is_found():
    server = MovingLimit([Phase(3, 72), Phase(6, 24)], PERIOD)
    numbers = asked(server, 1)
    assert len(server.refused) < 0.15 * (len(server.admitted) + len(server.refused))
    assert 0.5 * server.free(MOST) <= len(server.admitted) <= 1.1 * server.free(MOST)
    assert all(6 <= number <= 36 for number in numbers)
