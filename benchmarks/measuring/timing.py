"""Turns: a statement in a loop, calls that are timed one by one, and statements in many threads."""

from __future__ import annotations

import itertools
import statistics
import textwrap
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from measuring.turns import Sample, Turn


@dataclass(frozen=True)
class Statement:
    """What somebody would write for a call, and the names in it, which are local where it runs."""

    code: str
    names: Mapping[str, object] = field(default_factory=dict)

    def having(self, **names: object) -> Statement:
        return Statement(self.code, {**self.names, **names})

    def for_each(self, name: str, values: object) -> Statement:
        """Return a loop of this statement over values."""
        return Statement(f"for {name} in all_values: {self.code}", {**self.names, "all_values": values})

    def compiled(self) -> Callable[[int], None]:
        """Return a function that runs the statement so many times, in a loop as lean as timeit's."""
        lines = [
            "def run(_times):",
            *(f"    {name} = _names[{name!r}]" for name in self.names),
            "    for _ in _repeat(None, _times):",
            textwrap.indent(self.code, "        "),
        ]
        made: dict[str, Callable[[int], None]] = {}
        exec("\n".join(lines), {"_names": self.names, "_repeat": itertools.repeat}, made)
        return made["run"]


def looped(statement: Statement, seconds: float, calls: int = 1) -> Turn:
    """Return a turn of so many seconds: the nanoseconds of a call, of which the statement makes some."""
    run = statement.compiled()
    times = 0

    def turn() -> Sample:
        nonlocal times
        times = times or times_in(run, seconds)
        return Sample(nanoseconds(run, times) / times / calls)

    return turn


def times_in(run: Callable[[int], None], seconds: float) -> int:
    """Return how many times something can run in so many seconds, about: the best of some tries says it."""
    times = 1
    while (taken := min(nanoseconds(run, times) for _ in range(4))) < seconds * 1e8:
        times *= 2
    return max(1, round(times * seconds * 1e9 / taken))


def nanoseconds(run: Callable[[int], None], times: int) -> int:
    began = time.perf_counter_ns()
    run(times)
    return time.perf_counter_ns() - began


def one_by_one(statement: Statement, seconds: float) -> Turn:
    """Return a turn of so many seconds: the median of the microseconds of a call, and those of each call."""
    run = statement.compiled()

    def turn() -> Sample:
        taken: list[float] = []
        ends = time.perf_counter_ns() + seconds * 1e9
        while time.perf_counter_ns() < ends:
            taken.append(nanoseconds(run, 1) / 1e3)
        return Sample(statistics.median(taken), taken)

    return turn


def in_threads(statements: Sequence[Statement], seconds: float, between_looks: int) -> Turn:
    """Return a turn of threads that run a statement each: how many times a second, all together.

    A thread looks at the clock after so many times.
    """
    runs = [statement.compiled() for statement in statements]

    def turn() -> Sample:
        start = threading.Barrier(len(runs) + 1)
        counts: list[int] = []

        def work(run: Callable[[int], None]) -> None:
            start.wait()
            ends, count = time.perf_counter() + seconds, 0
            while time.perf_counter() < ends:
                run(between_looks)
                count += between_looks
            counts.append(count)

        threads = [threading.Thread(target=work, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        start.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return Sample(sum(counts) / (time.perf_counter() - began))

    return turn
