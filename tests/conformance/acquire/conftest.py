"""Callers that wait in threads of their own, for the clock of the test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .waiters import Told, queued, until


@pytest.fixture
def call(clock):
    """Return a function that calls another in a thread; who still waits at the end is let go by the clock."""
    with ThreadPoolExecutor(64) as pool:
        yield pool.submit
        clock.advance(10**8)


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
