"""Threads that wait in acquire: all are let in, and never more at once than may be."""

from __future__ import annotations

import time

from overlimit import FixedWindow, Limiter, ManualClock, TokenBucket
from overlimit.recipes import Concurrency

from .together import THREADS, all_together, joined, meanwhile


def test_all_that_wait_are_let_in_one_window_after_another():
    clock = ManualClock(1_700_000_000)
    limiter = Limiter(FixedWindow(3, 10, start="epoch"), clock=clock)

    def move() -> None:
        clock.advance(1)
        time.sleep(0.001)

    def acquire(_thread: int) -> list[float]:
        decisions = [limiter.acquire("a", timeout=None) for _ in range(9)]
        assert all(decisions)
        return [decision.time // 10 for decision in decisions]

    windows = joined(meanwhile(lambda: all_together(acquire), move))
    assert len(windows) == THREADS * 9
    assert max(windows.count(window) for window in windows) == 3


def test_they_wait_no_less_than_they_must_by_the_real_time():
    limiter = Limiter(TokenBucket(100, per=1, burst=1))
    began = time.monotonic()
    assert all(joined(all_together(lambda _: [limiter.acquire("a", timeout=30) for _ in range(5)])))
    assert time.monotonic() - began >= (THREADS * 5 - 1) / 100 - 0.001


def test_who_waits_is_woken_by_a_refund():
    limiter = Limiter(FixedWindow(2, 86_400))

    def take_and_give_back(_thread: int) -> None:
        for _ in range(20):
            decision = limiter.acquire("a", timeout=None)
            assert decision
            limiter.refund(decision)

    all_together(take_and_give_back)
    assert limiter.peek("a", cost=0).remaining == 2


def test_slots_are_held_by_so_many_at_once():
    concurrency = Concurrency(2)
    held, most = [], []

    def work(_thread: int) -> None:
        for _ in range(50):
            with concurrency.slot("a", timeout=None) as slot:
                held.append(slot)
                most.append(len(held))
                held.remove(slot)
            if slot := concurrency.enter("a"):
                held.append(slot)
                most.append(len(held))
                held.remove(slot)
                slot.leave()

    all_together(work)
    assert len(most) >= 200
    assert 1 <= max(most) <= 2
    assert concurrency.in_use("a") == 0
