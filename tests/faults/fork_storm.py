"""A program whose threads do all that limiters do, while it forks over and over.

Each child does the same things at once, with the limiters it inherited and with new ones, and some fork
again. One that takes two seconds for a step ends the program, with what gdb and Python know of it. What was
admitted is printed as JSON, for the test to compare with what it may be.

    python fork_storm.py '{"url": "redis://localhost", "prefix": "t", "forks": 40}'
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from overlimit import FixedWindow, LeakyBucket, Limiter, MemoryStore, RedisStore, StoreError, hit_all

ANSWERS_WITHIN = 2.0
"""Seconds in which a child answers each call."""
AMPLE = 1_000_000_000
CHARGES = 5
"""How often a child hits each limiter it inherited."""


class Storm:
    """The limiters, the threads that use them, and what these have counted."""

    def __init__(
        self,
        *,
        url: str,
        prefix: str,
        forks: int,
        tight: int,
        timeout: float = 10.0,
        may_fail: bool = False,
        may_forget: bool = False,
    ) -> None:
        self.url, self.prefix, self.timeout = url, prefix, timeout
        self.forks, self.may_fail, self.may_forget = forks, may_fail, may_forget
        self.in_memory = url == "memory://"
        self.has_one_slot = not url.startswith("redis+cluster")
        self.store = self.new_store()
        self.counted = self.limiter("counted", FixedWindow(AMPLE, per=86_400))
        self.dated = self.limiter("dated", FixedWindow(AMPLE, "day", start="calendar", timezone="UTC"))
        self.changing = self.limiter("changing", "1000/day")
        self.swept = self.limiter("swept", "1000/second")
        self.paced = self.limiter("paced", LeakyBucket(1_000, per=1, capacity=100))
        self.tight = self.limiter("tight", FixedWindow(tight, per=86_400))
        self.rescued = self.limiter("rescued", "1000000/day", on_error="local")
        self.over = threading.Event()
        self.hits = [0, 0]
        self.admitted = 0
        self.maybe_admitted = 0
        self.failures: list[str] = []

    def new_store(self) -> Any:
        if self.in_memory:
            return MemoryStore()
        return RedisStore(self.url, prefix=self.prefix, timeout=self.timeout)

    def limiter(self, name: str, limits: Any, **options: Any) -> Limiter:
        return Limiter(limits, name=name, store=self.store, **options)

    @contextlib.contextmanager
    def tolerating(self) -> Iterator[None]:
        """Let errors of the store pass where its server is tormented."""
        try:
            yield
        except StoreError:
            if not self.may_fail:
                raise

    # What the threads of the parent do, again and again.

    def hit_first(self) -> None:
        self.counted.hit("parent")
        self.hits[0] += 1

    def hit_second(self) -> None:
        self.counted.hit("parent")
        self.hits[1] += 1

    def hit_by_calendar(self) -> None:
        assert self.dated.hit("parent")
        if self.has_one_slot:
            assert hit_all([(self.dated, "several"), (self.counted, "several")])

    def spend_what_is_tight(self) -> None:
        try:
            self.admitted += bool(self.tight.hit("shared"))
        except StoreError as error:
            self.maybe_admitted += error.maybe_charged
            raise

    def change(self) -> None:
        self.changing.update(f"{random.randint(500, 2_000)}/day")
        self.changing.hit("parent")

    def sweep(self) -> None:
        self.swept.hit(*(f"parent {i}" for i in range(2)) if self.has_one_slot else ("parent",))
        self.swept.reset("parent")
        self.swept.reset_all()

    def wait(self) -> None:
        self.paced.acquire("parent", timeout=1.0)

    def hit_many(self) -> None:
        decided = [each for each in self.counted.hit_many(["many"] * 150) if each is not None]
        left = [each.remaining for each in decided]
        assert left == sorted(left, reverse=True)

    def take_back(self) -> None:
        self.counted.refund(self.counted.hit("refunded"))

    def build(self) -> None:
        Limiter("1000000/day", name="built", store=self.new_store()).hit("parent")
        self.rescued.hit("parent")

    def threads(self) -> list[threading.Thread]:
        deeds = [
            self.hit_first,
            self.hit_second,
            self.hit_by_calendar,
            self.spend_what_is_tight,
            self.change,
            self.sweep,
            self.wait,
            self.wait,
            self.hit_many,
            self.take_back,
            self.build,
        ]
        return [threading.Thread(target=self.repeat, args=(deed,)) for deed in deeds]

    def repeat(self, deed: Callable[[], None]) -> None:
        try:
            while not self.over.is_set():
                with self.tolerating():
                    deed()
        except BaseException:
            self.failures.append(traceback.format_exc())

    # What a child does, step by step.

    def steps(self, number: str) -> Iterator[tuple[str, Callable[[], object]]]:
        yield "hit", lambda: self.hit_in_order(number)
        yield "tight", lambda: [self.spend_what_is_tight() for _ in range(CHARGES)]
        yield "calendar", self.hit_by_calendar
        yield "update", self.change
        yield "reset", lambda: self.swept.reset("parent", "child")
        yield "reset_all", self.sweep
        yield "acquire", lambda: self.paced.acquire(number, timeout=1.0)
        yield "many", self.hit_many
        yield "refund", self.take_back
        yield "lock", lambda: self.swept.lock(number, 1)
        yield "stats", self.counted.stats
        yield "peek", lambda: self.counted.peek(number)
        yield "new", self.build
        yield "process-wide", lambda: Limiter("1000000/day", name="own", store=self.own_url()).hit("child")

    def own_url(self) -> str:
        more = "&" if "?" in self.url else "?"
        return self.url if self.in_memory else f"{self.url}{more}timeout={self.timeout}"

    def hit_in_order(self, number: str) -> None:
        """Hit alone: each leaves one less. In memory a child goes on from its parent's count."""
        identifier = "parent" if self.in_memory else number
        used = AMPLE - self.counted.peek(identifier, cost=0).remaining
        assert not self.in_memory or sum(self.hits) <= used <= sum(self.hits) + len(self.hits), used
        left = [AMPLE - used - self.counted.hit(identifier).remaining for _ in range(CHARGES)]
        assert self.may_fail or left == list(range(1, 1 + CHARGES)), (used, left)
        self.hits[0] += CHARGES

    def answer(self, number: str, generations: int) -> dict[str, int]:
        """Do all of that in a child, and in a child of it."""
        own = {"admitted": 0, "maybe_admitted": 0, "charged": 0}
        self.admitted = self.maybe_admitted = 0
        for name, step in self.steps(number):
            os.write(self.pipe, f"{name}\n".encode())
            with self.tolerating():
                step()
        if generations:
            for key, value in self.child(f"{number} again", generations - 1).items():
                own[key] += value
        own["admitted"] += self.admitted
        own["maybe_admitted"] += self.maybe_admitted
        own["charged"] += CHARGES
        return own

    # Forking.

    def child(self, number: str, generations: int) -> dict[str, int]:
        """Fork a child and return what it answers in time."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self.pipe = writing
            self.end_child(number, generations)
        os.close(writing)
        with open(reading, "rb", buffering=0) as pipe:
            text = self.received(pipe.fileno(), pid, ANSWERS_WITHIN * (1 + generations))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        steps = text.splitlines()
        if status != 0:
            raise SystemExit(f"the child {number} ended with {status} in {steps[-1:]}")
        result: dict[str, int] = json.loads(steps[-1])
        return result

    def end_child(self, number: str, generations: int) -> None:
        status = 1
        try:
            os.write(self.pipe, json.dumps(self.answer(number, generations)).encode() + b"\n")
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def received(self, fd: int, pid: int, within: float) -> str:
        text = b""
        while select.select([fd], [], [], within)[0]:
            piece = os.read(fd, 65_536)
            if not piece:
                return text.decode()
            text += piece
            if text.endswith(b"}\n"):
                return text.decode()
        show_hanging(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print(f"no answer within {within} s, the last step was {text.splitlines()[-1:]}", file=sys.stderr)
        os._exit(3)

    def run(self) -> dict[str, int]:
        threads = self.threads()
        for thread in threads:
            thread.start()
        try:
            total = self.fork_them()
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        if self.failures:
            raise SystemExit("\n".join(self.failures))
        return total

    def fork_them(self) -> dict[str, int]:
        total = {"admitted": 0, "maybe_admitted": 0, "charged": 0}
        for number in range(self.forks):
            time.sleep(random.random() / 200)
            for key, value in self.child(f"child {number}", generations=number % 5 == 0).items():
                total[key] += value
        return total

    def drain(self) -> None:
        """Spend what is left of what is tight, so that all of it is spent."""
        for _ in range(1_000_000):
            try:
                if not self.tight.peek("shared"):
                    return
                self.spend_what_is_tight()
            except StoreError:
                if not self.may_fail:
                    raise
                time.sleep(0.001)


def show_hanging(pid: int) -> None:
    """Write where the threads of a child are, in Python and beneath it."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.2)
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 40"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        print(shown.stdout, file=sys.stderr)


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.setswitchinterval(0.0005)  # so that more happens between two forks
    storm = Storm(**json.loads(sys.argv[1]))
    total = storm.run()
    before = storm.admitted
    if not storm.may_forget:
        storm.drain()
    if not storm.may_fail:
        assert not storm.tight.hit("shared")
        total["used"] = AMPLE - storm.counted.peek("parent", cost=0).remaining
        total["refunded"] = AMPLE - storm.counted.peek("refunded", cost=0).remaining
    total |= {
        "hits": sum(storm.hits),
        "admitted_by_parent": storm.admitted,
        "admitted_meanwhile": before,
        "maybe_admitted_by_parent": storm.maybe_admitted,
    }
    print(json.dumps(total))


if __name__ == "__main__":
    main()
