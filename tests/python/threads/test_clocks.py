"""Clocks that are moved, followed and left while threads decide by them."""

from __future__ import annotations

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, over_limit
from overlimit.testing import fresh_counts, manual_time

from .together import THREADS, all_together, joined, meanwhile, together


def test_every_step_of_a_clock_counts():
    clock = ManualClock()
    all_together(lambda _: [clock.advance(0.25) for _ in range(200)])
    assert clock.now() == THREADS * 200 * 0.25


def test_a_clock_that_moves_during_hits_begins_one_window_after_another():
    clock = ManualClock(1_700_000_000)
    limiter = Limiter(FixedWindow(3, 10, start="epoch"), clock=clock)

    def hit(_thread: int) -> list[float]:
        decisions = [limiter.hit("a") for _ in range(100)]
        assert [d.time for d in decisions] == sorted(d.time for d in decisions)
        return [d.time for d in decisions if d]

    def move() -> list[float]:
        for _ in range(40):
            clock.advance(5)
        return []

    times = joined(together(move, *(lambda thread=i: hit(thread) for i in range(THREADS))))
    windows = [time // 10 for time in times]
    assert max(windows.count(window) for window in windows) == 3
    assert 3 <= len(windows) <= 21 * 3


def test_limiters_follow_a_clock_or_their_own_while_that_changes():
    store = MemoryStore()
    limiter = Limiter("1000000/day", name="followed", store=store)
    given = 1_000_000.0

    def follow() -> None:
        with manual_time(given) as clock:
            clock.advance(1)

    def make() -> None:
        assert Limiter("1/day", name="made", store=store).peek("a").time > 0

    def hit(_thread: int) -> set[float]:
        return {limiter.hit("a").time for _ in range(300)}

    times = set().union(*meanwhile(lambda: all_together(hit, 4), follow, follow, make))
    shown = {time for time in times if time < 1_600_000_000}
    assert shown <= {given, given + 1}
    with manual_time(given):
        assert limiter.peek("a").time == given
    assert limiter.peek("a").time > 1_600_000_000


def test_counts_are_forgotten_while_others_count():
    def hit(_thread: int) -> int:
        return sum(
            not over_limit("memory://", 86_400, 20, identifiers="a", name="forgotten") for _ in range(100)
        )

    admitted = sum(meanwhile(lambda: all_together(hit, 4), fresh_counts))
    assert 20 <= admitted <= 400
    fresh_counts()
    assert sum(all_together(hit)) == 20
