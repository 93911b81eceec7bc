"""Callers that wait in threads of their own, for the clock of the test.

The lines they stand in are Python's, so their tests run in memory, but for those with real time.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from threading import Thread

import pytest

import event_loops
import memory_unless_marked
from overlimit import FixedWindow

from .waiters import A_MOMENT, Told, queued, until

store = memory_unless_marked.store


def pytest_generate_tests(metafunc):
    memory_unless_marked.pytest_generate_tests(metafunc)
    event_loops.pytest_generate_tests(metafunc)


@pytest.fixture
def call(clock):
    """Return a function that calls another in a thread; who still waits at the end is let go by the clock.

    The threads are daemons, so that a test that fails keeps nobody up whom the clock cannot let go.
    """
    callers = []

    def start(function, *arguments, **options):
        caller = Future()
        callers.append(caller)
        Thread(target=answer, args=(caller, function, arguments, options), daemon=True).start()
        return caller

    yield start
    for _ in range(50):
        if not wait(callers, timeout=A_MOMENT).not_done:
            break
        clock.advance(10**8)


def answer(caller, function, arguments, options):
    """Call a function for whoever has the future."""
    try:
        caller.set_result(function(*arguments, **options))
    except BaseException as error:
        caller.set_exception(error)


@pytest.fixture
def enqueue(call):
    """Return a function that lets another thread acquire, and comes back when that has joined the queue."""

    def start(limiter, *identifiers, **options):
        before = queued(limiter)
        caller = call(limiter.acquire, *identifiers, **options)
        until(lambda: queued(limiter) == before + 1)
        return caller

    return start


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def short(build):
    return build(FixedWindow(1, 10), name="short")


@pytest.fixture
def long(build):
    return build(FixedWindow(2, 60), name="long")
