"""Calls of a fleet: when, of which process, and for whom."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Arrival(NamedTuple):
    """A call: seconds since the beginning, the number of a process, and an identifier."""

    time: float
    process: int
    identifier: str


@dataclass(frozen=True)
class Traffic:
    """Calls at random, of identifiers of which few are common and most are rare."""

    rate: float
    """Calls per second, of all processes together."""
    seconds: float
    identifiers: int = 1
    zipf: float = 1.0
    """The identifier at place n is called in proportion to n to the power of minus this."""
    burst: float = 1.0
    """During a tenth of each second calls come so many times as often as during the rest."""
    seed: int = 1

    def arrivals(self, processes: int) -> list[Arrival]:
        """Return all calls in the order of their times; the same for the same numbers."""
        chance = random.Random(self.seed)
        weights = list(itertools.accumulate((n + 1) ** -self.zipf for n in range(self.identifiers)))
        return [
            Arrival(time, chance.randrange(processes), f"user:{_place(weights, chance.random())}")
            for time in self._times(chance)
        ]

    # Those of a rate that is always the highest, of which some are left out.
    def _times(self, chance: random.Random) -> Iterator[float]:
        usual = self.rate / (0.9 + 0.1 * self.burst)
        highest = usual * max(1.0, self.burst)
        time = chance.expovariate(highest)
        while time < self.seconds:
            now = usual * (self.burst if time % 1.0 < 0.1 else 1.0)
            if chance.random() * highest < now:
                yield time
            time += chance.expovariate(highest)


def _place(weights: list[float], share: float) -> int:
    return bisect.bisect_left(weights, share * weights[-1])
