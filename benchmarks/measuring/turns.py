"""One way to measure for all: contestants take turns, and the medians over the rounds count.

So what else the machine does meets all of them, and a ratio compares what happened in the same round.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """What one turn has measured: a number in the unit of its contest."""

    value: float
    latencies: Sequence[float] = ()
    """Microseconds of each call, of calls that are long enough to be timed one by one."""


Turn = Callable[[], Sample]


@dataclass(frozen=True)
class Contestant:
    name: str
    turn: Turn
    x: int | None = None
    """Where on a curve of growth this is a point of."""


@dataclass(frozen=True)
class Contest:
    """What is compared; the first contestant, or the first with the same x, is the floor."""

    title: str
    unit: str
    contestants: Sequence[Contestant]
    axis: str = ""
    """What x counts."""

    rounds: int = 0
    """Zero: as many as usual."""


@dataclass(frozen=True)
class Record:
    """What a contestant has reached: medians over the rounds."""

    part: str
    title: str
    name: str
    unit: str
    median: float
    quartiles: tuple[float, float]
    ratio: float
    p50: float | None = None
    p99: float | None = None
    axis: str = ""
    x: int | None = None


@dataclass(frozen=True)
class Effort:
    """How long a run measures."""

    rounds: int
    seconds: float
    """Of a turn of short calls."""

    quick: bool = False

    def of(self, full: int, quick: int) -> int:
        """Return how much of something there is in this run."""
        return quick if self.quick else full


FULL = Effort(rounds=11, seconds=0.05)
QUICK = Effort(rounds=2, seconds=0.002, quick=True)

Found = Iterator[Contest | str]
"""What a part yields: contests, each to be measured before the next is made, and remarks."""


def contest(title: str, unit: str, turns: dict[str, Turn], *, rounds: int = 0) -> Contest:
    """Return a contest that is no curve."""
    return Contest(title, unit, [Contestant(name, turn) for name, turn in turns.items()], rounds=rounds)


def measure(part: str, contest: Contest, rounds: int) -> list[Record]:
    """Have all contestants take their turns."""
    taken = take_turns([each.turn for each in contest.contestants], rounds)
    floors: dict[int | None, list[Sample]] = {}
    for contestant, samples in zip(contest.contestants, taken, strict=True):
        floors.setdefault(contestant.x, samples)
    return [
        record(part, contest, contestant, samples, floors[contestant.x])
        for contestant, samples in zip(contest.contestants, taken, strict=True)
    ]


def take_turns(turns: Sequence[Turn], rounds: int) -> list[list[Sample]]:
    """Return what each turn has measured, round by round, after a round that does not count."""
    taken: list[list[Sample]] = [[] for _ in turns]
    gc.collect()
    gc.freeze()  # or each collection would look through what all contestants keep
    try:
        for _ in range(rounds + 1):
            for turn, samples in zip(turns, taken, strict=True):
                gc.collect()
                gc.disable()  # as timeit does
                samples.append(turn())
                gc.enable()
    finally:
        gc.enable()
        gc.unfreeze()
    return [samples[1:] for samples in taken]


def record(
    part: str, contest: Contest, contestant: Contestant, samples: list[Sample], floor: list[Sample]
) -> Record:
    values = sorted(sample.value for sample in samples)
    ratios = [own.value / first.value for own, first in zip(samples, floor, strict=True)]
    latencies = sorted(each for sample in samples for each in sample.latencies)
    return Record(
        part,
        contest.title,
        contestant.name,
        contest.unit,
        rounded(statistics.median(values)),
        (rounded(quantile(values, 0.25)), rounded(quantile(values, 0.75))),
        rounded(statistics.median(ratios)),
        rounded(quantile(latencies, 0.5)) if latencies else None,
        rounded(quantile(latencies, 0.99)) if latencies else None,
        contest.axis,
        contestant.x,
    )


def rounded(value: float) -> float:
    """Return a number of five digits: more are noise."""
    return float(f"{value:.5g}")


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies, between two neighbours if need be."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
