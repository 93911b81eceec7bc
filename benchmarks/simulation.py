"""Replays and many calls at once, against loops in Python: python benchmarks/simulation.py [--events N].

All contestants take the same events in the same run, and take turns; the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable

import limits
import numpy as np

from overlimit import Limiter, ManualClock, MemoryStore, TokenBucket
from overlimit.simulation import Events, replay

IDENTIFIERS = 10_000
LOOPED = 200_000
"""Events that a loop in Python takes: so many are enough for its speed."""
ROUNDS = 3
THREE = "10/second; 120/minute; 240/hour"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    count = parser.parse_args().events
    events = made_events(count)
    bucket = TokenBucket(10, burst=20)
    report(
        f"Replay of {count:,} events of {IDENTIFIERS:,} identifiers: one token bucket",
        {
            "leanest loop: clock.set(t); hit(identifier)": (lean_replay(events, bucket), LOOPED),
            "for event in events: limiter.hit(...)": (lambda: looped_replay(events, bucket), LOOPED),
            "replay, only `allowed`": (lambda: replay(events, bucket, columns=("allowed",)), count),
            "replay, all columns": (lambda: replay(events, bucket), count),
            "loop over limits (fixed window)": (lambda: looped_limits(names_of(events), 1), LOOPED),
        },
    )
    report(
        "The same: three sliding windows",
        {
            "leanest loop: clock.set(t); hit(identifier)": (lean_replay(events, THREE), LOOPED),
            "for event in events: limiter.hit(...)": (lambda: looped_replay(events, THREE), LOOPED),
            "replay, only `allowed`": (lambda: replay(events, THREE, columns=("allowed",)), count),
            "replay, all columns": (lambda: replay(events, THREE), count),
            "loop over limits (three fixed windows)": (lambda: looped_limits(names_of(events), 3), LOOPED),
        },
    )
    rows = random.Random(1).choices([f"user:{k}" for k in range(1000)], k=1_000_000)
    report(
        "Many calls at once in memory: a list of 1,000,000 str, one token bucket",
        {
            "loop over Limiter.hit": (lambda: looped_hits(rows[:LOOPED], bucket), LOOPED),
            "Limiter.hit_many": (lambda: new_limiter(bucket).hit_many(rows), len(rows)),
            "loop over limits (fixed window)": (lambda: looped_limits(rows[:LOOPED], 1), LOOPED),
        },
    )


def made_events(count: int) -> Events:
    """Return events of a day, in order, whose identifiers are ints."""
    random_ = np.random.default_rng(1)
    start = 1_700_000_000_000_000
    times = np.sort(random_.integers(start, start + 86_400_000_000, count))
    return Events(times, random_.integers(0, IDENTIFIERS, count), unit="us")


def names_of(events: Events) -> list[str]:
    return events[:LOOPED].identifiers.tolist()


def new_limiter(policy: object) -> Limiter:
    return Limiter(policy, store=MemoryStore())


def looped_replay(events: Events, policy: object) -> None:
    clock = ManualClock()
    limiter = Limiter(policy, store=MemoryStore(), clock=clock)
    for event in events[:LOOPED]:
        clock.set(event.time)
        limiter.hit(*event.identifiers, cost=event.cost)


def lean_replay(events: Events, policy: object) -> Callable[[], None]:
    """Return a loop that does nothing but set the clock and hit: all arguments were made before."""
    arguments = [(event.time, event.identifiers[0]) for event in events[:LOOPED]]

    def loop() -> None:
        clock = ManualClock()
        hit, set_ = Limiter(policy, store=MemoryStore(), clock=clock).hit, clock.set
        for time_, identifier in arguments:
            set_(time_)
            hit(identifier)

    return loop


def looped_hits(rows: list[str], policy: object) -> None:
    hit = new_limiter(policy).hit
    for row in rows:
        hit(row)


def looped_limits(rows: list[str], windows: int) -> None:
    strategy = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    items = [limits.parse(text) for text in ("120/minute", "240/hour", "1000/day")[:windows]]
    for row, item in itertools.product(rows, items):
        strategy.hit(item, row)


def report(title: str, contestants: dict[str, tuple[Callable[[], object], int]]) -> None:
    """Print events a second, and how many times those of the first contestant they are."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, (run, count) in contestants.items():
            started = time.perf_counter()
            run()
            best[name] = max(best.get(name, 0.0), count / (time.perf_counter() - started))
    first = next(iter(best.values()))
    print(f"\n{title}")
    for name, rate in best.items():
        print(f"  {name:46}{rate / 1e6:10.2f} million/s  x{rate / first:.1f}")


if __name__ == "__main__":
    main()
