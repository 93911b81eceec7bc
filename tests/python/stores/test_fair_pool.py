"""Connections that threads take in turn: none is lost, whatever comes in between, and nobody starves."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from interrupts import interrupted_everywhere
from overlimit import Limiter
from overlimit._steps import await_calls
from overlimit.stores import PostgreSQLStore, SQLiteStore
from overlimit.stores.fair_pool import FairPool, FairPoolOfLoop


def test_ctrl_c_while_somebody_waits_loses_none():
    def work() -> None:
        pool.using(time_left, used.append)

    def time_left() -> float:
        if taken:  # whoever has it gives it back meanwhile, and cannot tell
            pool.free.extend(map(list.pop, [taken]))
        return 9.0

    pool, used = FairPool(["it"]), list[str]()
    taken: list[str] = []
    assert pool.take_now(taken)
    for number in interrupted_everywhere(work):  # noqa: B007
        pool.free.extend(taken)
        assert [*pool.free] == ["it"]
        assert not pool._waiting
        pool.using(lambda: 1.0, lambda _: None)
        taken = [pool.free.pop()]
    assert number > 10
    assert used[-1] == "it"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_ctrl_c_in_a_hit_leaves_the_store_to_later_ones(kind, tmp_path, postgresql_url):
    if kind == "sqlite":
        store: Any = SQLiteStore(tmp_path / "limits.db", timeout=9)
    else:
        store = PostgreSQLStore(postgresql_url, max_connections=1)
    limiter, later = (Limiter("100000/day", name=name, store=store) for name in ("now", "later"))
    later.hit("a")
    hits = 0
    for _ in interrupted_everywhere(lambda: limiter.hit("a")):
        began = time.monotonic()
        assert later.hit("a").allowed
        assert time.monotonic() - began < 5
        hits += 1
    assert hits > 15
    assert later.peek("a", cost=0).remaining == 100_000 - 1 - hits
    assert 1 <= 100_000 - limiter.peek("a", cost=0).remaining <= hits + 1


def test_whoever_has_waited_longest_is_next():
    pool, order = FairPool(["it"]), list[int]()
    taken: list[str] = []
    assert pool.take_now(taken)
    threads = [
        threading.Thread(
            target=pool.using, args=(lambda: 60.0, lambda _, number=number: order.append(number))
        )
        for number in range(5)
    ]
    for number, thread in enumerate(threads):
        thread.start()
        while len(pool._waiting) <= number:
            time.sleep(0.001)
    pool.free.extend(taken)
    pool.tell()
    pool.using(lambda: 60.0, lambda _: order.append(5))
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4, 5]


def test_nobody_waits_beyond_the_time():
    pool = FairPool(["it"])
    began = time.monotonic()

    def use(_: str) -> None:
        pool.using(lambda: began + 0.2 - time.monotonic(), lambda _: None)

    with pytest.raises(TimeoutError, match="all connections: 1"):
        pool.using(lambda: 1.0, use)
    assert 0.2 <= time.monotonic() - began < 5
    assert pool.using(lambda: 0.0, str.upper) == "IT"


def test_tasks_that_wait_in_a_long_line_leave_the_event_loop_alone():
    looks = 0

    def time_left() -> float:
        nonlocal looks
        looks += 1
        return 60.0

    async def wait(number: int) -> None:
        taken: list[str] = []
        try:
            await await_calls(pool.take(taken, time_left))
            order.append(number)
        finally:
            pool.free.extend(taken)
            pool.tell()

    async def main() -> None:
        nonlocal looks
        taken: list[str] = []
        assert pool.take_now(taken)
        tasks = [asyncio.create_task(wait(number)) for number in range(300)]
        await asyncio.sleep(0.1)
        looks = 0
        await asyncio.sleep(0.8)
        assert 1 <= looks < 100
        tasks[0].cancel()
        tasks[2].cancel()
        pool.free.extend(taken)
        pool.tell()
        await asyncio.wait(tasks)

    pool, order = FairPoolOfLoop(["it"]), list[int]()
    asyncio.run(main())
    assert order == [1, *range(3, 300)]
