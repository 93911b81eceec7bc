"""Threads that do something at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

THREADS = 4


def together(*works: Callable[[], Any], times: int = 1) -> list[Any]:
    """Call each function so many times in a thread of its own, all beginning at once.

    Return what each returned the last time; raise what one of them raised.
    """
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        start.wait(timeout=60)
        return [work() for _ in range(times)][-1]

    with ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(run, work) for work in works]
        return [each.result() for each in running]


def all_together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Call a function with the number of each thread, all at once, and return what each call returned."""
    return together(*(lambda thread=thread: work(thread) for thread in range(threads)))


def meanwhile(work: Callable[[], Any], *others: Callable[[], Any]) -> Any:
    """Return what a function returns, while other threads call others again and again, each at least once."""
    ended = threading.Event()

    def repeat(other: Callable[[], Any]) -> None:
        while True:
            other()
            if ended.is_set():
                return

    def run() -> Any:
        try:
            return work()
        finally:
            ended.set()

    return together(run, *(lambda other=other: repeat(other) for other in others))[0]


def joined(lists: Iterable[list[Any]]) -> list[Any]:
    """Return what threads have returned as one list."""
    return list(chain.from_iterable(lists))
