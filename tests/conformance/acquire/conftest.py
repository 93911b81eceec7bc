"""Callers that wait in threads of their own, for the clock of the test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from .waiters import A_MOMENT, Told, queued, until


@pytest.fixture
def call(clock):
    """Return a function that calls another in a thread; who still waits at the end is let go by the clock."""
    callers = []

    def start(function, *arguments, **options):
        callers.append(pool.submit(function, *arguments, **options))
        return callers[-1]

    with ThreadPoolExecutor(200) as pool:
        yield start
        for _ in range(50):
            clock.advance(10**8)
            if not wait(callers, timeout=A_MOMENT).not_done:
                break


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
