"""Replays, suggestions and many calls at once, beside loops in Python: how many million events a second."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import limits
import numpy as np

from measuring.turns import Contest, Effort, Found, Sample, Turn, contest
from overlimit import Limiter, ManualClock, MemoryStore, TokenBucket
from overlimit.simulation import Events, replay, suggest

IDENTIFIERS = 10_000
THREE = "10/second; 120/minute; 240/hour"


def contests(effort: Effort) -> Found:
    """Compare loops over a part of the events, which is enough for their speed, with replays of all."""
    events = made_events(effort.of(1_000_000, 10_000))
    looped = events[: effort.of(200_000, 2_000)]
    bucket = TokenBucket(10, burst=20)
    yield replays("Replay, one token bucket", events, looped, bucket, 1, effort)
    yield replays("Replay, three sliding windows", events, looped, THREE, 3, effort)
    turns = {
        "overlimit, suggest": per_second(lambda: suggest(events, "{}/minute", (1, 1000)), len(events)),
        "overlimit, suggest, 200 draws": per_second(
            lambda: suggest(events, "{}/minute", (1, 1000), resample=200), len(events)
        ),
    }
    yield contest("A suggestion, and how sure it is", "million/s", turns, rounds=effort.of(5, 1))
    rows = random.Random(1).choices([f"user:{k}" for k in range(1000)], k=len(events))
    some = rows[: len(looped)]
    turns = {
        "overlimit, hit in a loop": per_second(lambda: looped_hits(some, bucket), len(some)),
        "overlimit, hit_many": per_second(lambda: new_limiter(bucket).hit_many(rows), len(rows)),
        "limits, a loop, fixed window": per_second(lambda: looped_limits(some, 1), len(some)),
    }
    yield contest("A list of str, one token bucket", "million/s", turns, rounds=effort.of(5, 1))


def replays(title: str, events: Events, looped: Events, policy: Any, windows: int, effort: Effort) -> Contest:
    names = looped.identifiers.tolist()
    turns = {
        "the leanest loop": per_second(lean_replay(looped, policy), len(looped)),
        "overlimit, a loop over events": per_second(lambda: looped_replay(looped, policy), len(looped)),
        "overlimit, replay, only `allowed`": per_second(
            lambda: replay(events, policy, columns=("allowed",)), len(events)
        ),
        "overlimit, replay, all columns": per_second(lambda: replay(events, policy), len(events)),
        "limits, a loop, fixed windows": per_second(lambda: looped_limits(names, windows), len(names)),
    }
    return contest(title, "million/s", turns, rounds=effort.of(5, 1))


def per_second(run: Callable[[], object], events: int) -> Turn:
    def turn() -> Sample:
        began = time.perf_counter()
        run()
        return Sample(events / (time.perf_counter() - began) / 1e6)

    return turn


def made_events(count: int) -> Events:
    """Return events of a day, in order, whose identifiers are ints."""
    random_ = np.random.default_rng(1)
    start = 1_700_000_000_000_000
    times = np.sort(random_.integers(start, start + 86_400_000_000, count))
    return Events(times, random_.integers(0, IDENTIFIERS, count), unit="us")


def new_limiter(policy: Any) -> Limiter:
    return Limiter(policy, store=MemoryStore())


def lean_replay(events: Events, policy: Any) -> Callable[[], None]:
    """Return a loop that does nothing but set the clock and hit: all arguments were made before."""
    arguments = [(event.time, event.identifiers[0]) for event in events]

    def loop() -> None:
        clock = ManualClock()
        hit, set_ = Limiter(policy, store=MemoryStore(), clock=clock).hit, clock.set
        for time_, identifier in arguments:
            set_(time_)
            hit(identifier)

    return loop


def looped_replay(events: Events, policy: Any) -> None:
    clock = ManualClock()
    limiter = Limiter(policy, store=MemoryStore(), clock=clock)
    for event in events:
        clock.set(event.time)
        limiter.hit(*event.identifiers, cost=event.cost)


def looped_hits(rows: list[str], policy: Any) -> None:
    hit = new_limiter(policy).hit
    for row in rows:
        hit(row)


def looped_limits(rows: list[str], windows: int) -> None:
    strategy = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    items = [limits.parse(text) for text in ("120/minute", "240/hour", "1000/day")[:windows]]
    for row, item in itertools.product(rows, items):
        strategy.hit(item, row)
