"""Arguments that other threads change while a call reads them: it sees each before or after."""

from __future__ import annotations

from overlimit import FixedWindow, Limiter, MemoryStore, hit_all

from .together import meanwhile


def test_rows_that_change():
    limiter = Limiter(FixedWindow(1_000_000, 86_400))
    rows = ["a"] * 50
    nested = [["b", "c"] for _ in range(20)]

    def change() -> None:
        rows.append("a")
        del rows[-2:]
        rows.extend(("a", "a", "a"))
        rows.pop()
        if len(rows) > 60:
            rows[:] = ["a"] * 50
        nested[0] = ["b", "d"]
        nested[1].append("e")
        nested[1][:] = ("b", "c")

    def hit() -> tuple[int, int]:
        used = 0
        for _ in range(300):
            used += len(limiter.hit_many(rows))
            assert limiter.hit_many(tuple(nested), 1) is not None
        return used, limiter.peek("a", cost=0).remaining

    used, left = meanwhile(hit, change)
    assert used > 0
    assert used + left == 1_000_000


def test_charges_that_change():
    store = MemoryStore()
    limiters = [Limiter("1000000/day", name=f"{i}", store=store) for i in range(3)]
    charges = [(limiters[0], "a")]

    def change() -> None:
        charges.append((limiters[1], "b"))
        charges.append((limiters[2], "c"))
        del charges[1:]

    def hit() -> int:
        for _ in range(500):
            assert 1 <= len(hit_all(charges).details) <= 3
        return limiters[0].peek("a", cost=0).remaining

    assert meanwhile(hit, change) == 1_000_000 - 500
