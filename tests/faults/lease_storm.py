"""Processes that hit limits in Redis, leased and strict, while others kill, stop and replace them at random.

The server stops for a moment now and then, too. Each call that was admitted is told of with the readings of
the clock before and after it, which are those of the server, as it runs on the same machine. What follows is
printed as JSON: by how much more was admitted, certainly, than a limit allows, and who has decided.

    PYTHONPATH=tests python -m faults.lease_storm '{"url": "redis://localhost", "server": 123, "prefix": "t",
        "seconds": 3, "seed": 1, "leased": 0.5, "lease_in": "shm://t"}'
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import struct
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlimit import (
    Decision,
    FixedWindow,
    LeakyBucket,
    Limiter,
    RedisStore,
    SlidingWindow,
    SlidingWindowCounter,
    StoreError,
    TokenBucket,
)

from .workers import Workers

WORKERS = 8
LEASE = 0.05
MOST = 100
PERIOD_US = 250_000
BLOCKS = 5
COLD = 3
LIMITS: dict[str, Any] = {
    "window": FixedWindow(MOST, per=PERIOD_US / 1e6, start="epoch"),
    "counter": SlidingWindowCounter(MOST, per=PERIOD_US / 1e6),
    "blocks": SlidingWindow(MOST, per=PERIOD_US / 1e6, precision=PERIOD_US / 1e6 / BLOCKS),
    "bucket": TokenBucket(MOST, per=PERIOD_US / 1e6),
    "interval": TokenBucket(MOST, per=PERIOD_US / 1e6, refill="interval", start="epoch"),
    "queue": LeakyBucket(MOST, per=PERIOD_US / 1e6, capacity=0),
}
"""Those of what is hit most."""
REPORT = struct.Struct("<12sqqqq")
Call = tuple[int, int, int]
"""The readings before and after, in microseconds, and the cost."""


@dataclass
class Account:
    """What was admitted, by limit and identifier."""

    calls: defaultdict[tuple[str, int], list[Call]] = field(default_factory=lambda: defaultdict(list))
    counted: Counter[str] = field(default_factory=Counter)

    def enter(self, report: bytes) -> None:
        for name, key, before, after, cost in REPORT.iter_unpack(report):
            what = name.rstrip(b"\0").decode()
            if before:
                self.calls[what, key].append((before, after, cost))
                self.counted["admitted"] += cost
            else:
                self.counted[what] += cost

    def over(self, what: str) -> int:
        """By how many units more was certainly admitted than may be, at the worst."""
        judge = JUDGES.get(what, in_windows)
        most = COLD if what == "cold" else MOST
        return max((judge(calls, most) for (name, _), calls in self.calls.items() if name == what), default=0)

    def admitted(self, what: str) -> int:
        return sum(cost for (name, _), calls in self.calls.items() if name == what for _, _, cost in calls)


def in_windows(calls: Sequence[Call], most: int, length: int = PERIOD_US, count: int = 1) -> int:
    """Of so many neighbouring windows of this length."""
    sums: Counter[int] = Counter()
    for before, after, cost in calls:
        first, last = before // length, after // length
        for place in range(last - count + 1, first + 1):  # all windows from which on it is certainly in them
            sums[place] += cost
    return max(sums.values(), default=0) - most


def in_blocks(calls: Sequence[Call], most: int) -> int:
    return in_windows(calls, most, PERIOD_US // BLOCKS, BLOCKS + 1)


def since(calls: Sequence[Call], allowed: Callable[[int], float]) -> int:
    """Of whatever time: ``allowed`` tells what may be admitted in so many microseconds."""
    in_order = sorted(calls, key=lambda call: call[1])
    worst = -MOST
    begins = range(in_order[0][0], in_order[-1][1], 50_000) if in_order else ()
    first = 0
    for begin in begins:
        total = 0
        while in_order[first][1] < begin:
            first += 1
        for before, after, cost in in_order[first:]:
            if after - begin > 8 * PERIOD_US:
                break
            if before >= begin:
                total += cost
                worst = max(worst, int(total - allowed(after - begin)))
    return worst


def in_bucket(calls: Sequence[Call], most: int) -> int:
    return since(calls, lambda time: most + most * (time + 1) / PERIOD_US)


def in_queue(calls: Sequence[Call], most: int) -> int:
    return since(calls, lambda time: most * (time // PERIOD_US + 2))


JUDGES: dict[str, Callable[[Sequence[Call], int], int]] = {
    "blocks": in_blocks,
    "bucket": in_bucket,
    "queue": in_queue,
}


class Storm:
    """The workers, those that torment them, and the account."""

    def __init__(
        self,
        *,
        url: str,
        server: int,
        prefix: str,
        seconds: float,
        seed: int,
        leased: float,
        lease_in: str | None,
    ) -> None:
        self.url, self.server, self.prefix, self.lease_in = url, server, prefix, lease_in
        self.seconds, self.leased = seconds, leased
        self.random = random.Random(seed)
        self.inherited = self.store(LEASE if leased else 0.0)
        self.account = Account()
        self.reading, self.writing = os.pipe()
        self.workers = Workers(WORKERS, self.worker)

    def store(self, lease: float) -> RedisStore:
        lease_in = self.lease_in if lease > 0 else None
        return RedisStore(self.url, prefix=self.prefix, timeout=0.3, lease=lease, lease_in=lease_in)

    def run(self) -> dict[str, Any]:
        os.set_blocking(self.reading, False)
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 1 << 20)
        # The parent leases, too, what none of its children may spend.
        Worker(self, random.Random(1), self.inherited).hot("window", 3)
        began = time.monotonic()
        try:
            while time.monotonic() - began < self.seconds:
                self.workers.fill()
                self.disturb()
                self.listen()
                time.sleep(self.random.uniform(0.0, 0.02))
        finally:
            os.kill(self.server, signal.SIGCONT)
            self.workers.kill(*self.workers.pids)
        self.listen()
        took = time.monotonic() - began
        account = self.account
        names = [*LIMITS, "cold", "pair"]
        return {
            "over": {what: account.over(what) for what in names},
            "admitted": {what: account.admitted(what) for what in names},
            "counted": account.counted,
            "killed": self.workers.killed,
            "seconds": took,
        }

    def worker(self) -> Callable[[], None]:
        seed, is_leased, inherits = (
            self.random.random(), self.random.random() < self.leased, self.random.random() < 0.5,
        )  # fmt: skip

        def work() -> None:
            store = self.inherited if inherits and is_leased else self.store(LEASE if is_leased else 0.0)
            Worker(self, random.Random(seed), store).work()

        return work

    def disturb(self) -> None:
        """Kill or stop one, stop the server for a moment, or let go on what was stopped for long enough."""
        self.workers.go_on()
        pid, choice = self.workers.choose(self.random), self.random.random()
        if choice < 0.03:
            self.workers.kill(pid)
        elif choice < 0.25:
            self.workers.stop(pid, self.random.choice([0.0, 0.01, 0.1, 0.3]))
        elif choice < 0.3:
            self.workers.stop(self.server, self.random.choice([0.01, 0.03, 0.1]))

    def listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while reports := os.read(self.reading, REPORT.size * 1000):
                self.account.enter(reports)


class Worker:
    """One process."""

    def __init__(self, storm: Storm, choose: random.Random, store: RedisStore) -> None:
        self.pipe, self.choose = storm.writing, choose
        self.limiters = {what: Limiter(limits, name=what, store=store) for what, limits in LIMITS.items()}
        self.cold = Limiter(FixedWindow(COLD, per=PERIOD_US / 1e6, start="epoch"), name="cold", store=store)
        self.pair = Limiter(LIMITS["window"], name="pair", store=store)
        self.changing = Limiter("1000/second", name="changing", store=store)

    def work(self) -> None:
        """Hit this and that for ever."""
        while True:
            with contextlib.suppress(StoreError):
                self.step()

    def step(self) -> None:
        what, cold = self.choose.choice(list(LIMITS)), self.choose.randrange(1, 30)
        limiter = self.limiters[what]
        match self.choose.randrange(12):
            case 0:
                self.tell_of("cold", lambda: [self.cold.hit(f"{cold}")], key=cold)
            case 1:
                limiter.refund(limiter.hit("hot"))
            case 2:
                for _ in range(5):
                    self.tell_of("pair", lambda: [self.pair.hit("hot", f"user {cold}")])
            case 3:
                self.tell_of(what, lambda: limiter.hit_many(["hot"] * 5))
            case 4:
                self.tell_of(what, lambda: [limiter.hit("hot", cost=3)], cost=3)
            case 5:
                self.changing.hit("hot")
                self.choose.choice([self.changing.reset, self.changing.unlock])("hot")
            case 6:
                limiter.peek("hot")
            case _:
                self.hot(what, 40)

    def hot(self, what: str, times: int) -> None:
        limiter = self.limiters[what]
        for _ in range(times):
            self.tell_of(what, lambda: [limiter.hit("hot")])

    def tell_of(self, what: str, call: Callable[[], Any], key: int = 0, cost: int = 1) -> None:
        before = time.time_ns() // 1000
        decisions: list[Decision] = [each for each in call() if each is not None]
        after = time.time_ns() // 1000 + 1
        reports = [(f"{each.source}", 0, 0, 0, 1) for each in decisions]
        reports += [(what, key, before, after, cost) for each in decisions if each.allowed]
        text = b"".join(REPORT.pack(name.encode(), *numbers) for name, *numbers in reports)
        os.write(self.pipe, text)
        if not all(decisions):
            time.sleep(self.choose.uniform(0.0, 0.002))


if __name__ == "__main__":
    print(json.dumps(Storm(**json.loads(sys.argv[1])).run()))
