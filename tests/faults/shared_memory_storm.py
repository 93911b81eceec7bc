"""Processes that hit limits in shared memory, while others kill, stop and replace them at random.

Each tells of every admission once it has its answer, of some with their time. What the store has counted in
the end is printed as JSON, beside what was told: a call whose process was killed may be counted without
having been told of, and nothing else.

    PYTHONPATH=tests python -m faults.shared_memory_storm '{"name": "storm", "seconds": 5, "seed": 1}'
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from overlimit import FixedWindow, Limiter, Penalty, SharedMemoryStore, SlidingLog, StoreTimeout, hit_all

from .workers import Workers

AMPLE = 1_000_000_000
WORKERS = 8
KEYS = ("a", "b", "c", "d")
REPORT = struct.Struct("8sd")
WINDOW_US, PER_WINDOW = 2_000, 3


class Storm:
    """The limits, the workers and what they have told."""

    def __init__(self, *, name: str, seconds: float, seed: int, tight: int = 500) -> None:
        self.seconds, self.tight = seconds, tight
        self.random = random.Random(seed)
        self.store = SharedMemoryStore(name, max_keys=4096, max_bytes=8 << 20, timeout=0.05)
        self.ample = Limiter(FixedWindow(AMPLE, per=86_400), name="ample", store=self.store)
        self.few = Limiter(FixedWindow(tight, per=86_400), name="tight", store=self.store)
        self.logged = Limiter(SlidingLog(100, per=0.5), name="logged", store=self.store, penalty=Penalty(0.1))
        self.timed = Limiter(
            FixedWindow(PER_WINDOW, per=WINDOW_US / 1e6, start="epoch"), name="timed", store=self.store
        )
        self.times: list[int] = []
        self.told: Counter[str] = Counter()
        self.reading, self.writing = os.pipe()
        self.workers = Workers(WORKERS, self.worker)

    def run(self) -> dict[str, Any]:
        """Return what was told and what was counted."""
        os.set_blocking(self.reading, False)
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends:
            self.workers.fill()
            self.disturb()
            self.listen()
            time.sleep(self.random.uniform(0.0, 0.01))
        self.workers.kill(*self.workers.pids)
        self.listen()
        return self.counts()

    def worker(self) -> Callable[[], None]:
        return partial(self.work, random.Random(self.random.random()))

    def disturb(self) -> None:
        """Kill one, stop one, or let one go on that was stopped for long enough."""
        self.workers.go_on()
        pid, choice = self.workers.choose(self.random), self.random.random()
        if choice < 0.5:
            self.workers.kill(pid)
        elif choice < 0.7:
            self.workers.stop(pid, self.random.uniform(0.0, 0.15))

    def listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while reports := os.read(self.reading, 1 << 16):
                for what, instant in REPORT.iter_unpack(reports):
                    self.told[what.rstrip(b"\0").decode()] += 1
                    if instant:
                        self.times.append(round(instant * 1e6))

    def tell(self, what: str, instant: float = 0.0) -> None:
        os.write(self.writing, REPORT.pack(what.encode(), instant))

    def work(self, choose: random.Random) -> None:
        """Hit this and that for ever."""
        while True:
            # A stopped process holds others up; a call that times out has charged nothing.
            with contextlib.suppress(StoreTimeout):
                self.step(choose)

    def step(self, choose: random.Random) -> None:
        key, other = choose.sample(KEYS, 2)
        if choose.random() < 0.3:
            self.step_by_time(choose, key)
            return
        match choose.randrange(8):
            case 0:
                if hit_all([(self.ample, key), (self.ample, other)]):
                    self.tell(f"2{min(key, other)}{max(key, other)}")
            case 1:
                if self.few.hit(key):
                    self.tell(f"t{key}")
            case 2:
                self.logged.hit(f"{key}{choose.randrange(50)}")
            case 3:
                self.ample.peek(key)
            case 4:
                self.logged.refund(self.logged.hit(key))
            case 5:
                self.logged.reset(key)
            case _:
                if self.ample.hit(key):
                    self.tell(f"1{key}")

    def step_by_time(self, choose: random.Random, other: str) -> None:
        rows = choose.choice([["one"], ["one", other, "one"]])
        decided = [self.timed.hit("one")] if len(rows) == 1 else self.timed.hit_many(rows)
        for decision in decided:
            if decision and decision.identifier == "one":
                self.tell("timed", decision.time)

    def counts(self) -> dict[str, Any]:
        began = time.monotonic()
        counted = {key: AMPLE - self.ample.peek(key, cost=0).remaining for key in KEYS}
        tight = {key: self.tight - self.few.peek(key, cost=0).remaining for key in KEYS}
        slowest = time.monotonic() - began
        told = {
            key: sum(number for what, number in self.told.items() if what[0] in "12" and key in what[1:])
            for key in KEYS
        }
        return {
            "told": told,
            "counted": counted,
            "told_of_tight": {key: self.told[f"t{key}"] for key in KEYS},
            "counted_of_tight": tight,
            "most_in_a_window": max(Counter(time // WINDOW_US for time in self.times).values()),
            "killed": self.workers.killed,
            "seconds_at_the_end": slowest,
            "damaged": self.store.stats()["damaged"],
            "alive": self.store.stats()["processes"]["alive"],
        }


if __name__ == "__main__":
    print(json.dumps(Storm(**json.loads(sys.argv[1])).run()))
