"""Contestants that take turns, so that what else the machine does meets all of them."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping

Contestants = Mapping[str, Callable[[], float]]
"""By name: takes one turn, and returns the microseconds of a call in it."""


def take_turns(contestants: Contestants, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds of each contestant, round by round, after a round that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, take_turn in contestants.items():
            gc.collect()
            gc.disable()  # as timeit does: it would look through what all the others keep
            taken[name].append(take_turn())
            gc.enable()
    return {name: times[1:] for name, times in taken.items()}


def print_costs(title: str, contestants: Contestants, rounds: int) -> None:
    """Print what each takes, and how much more than the first in the same round: medians over the rounds."""
    taken = take_turns(contestants, rounds)
    base = next(iter(taken.values()))
    print(f"\n{title}")
    for name, times in taken.items():
        pairs = list(zip(times, base, strict=True))
        over = statistics.median(own - bare for own, bare in pairs)
        share = statistics.median(own / bare - 1 for own, bare in pairs)
        print(f"  {name:40}{statistics.median(times):9.1f} us   + {over:8.1f} us   {100 * share:6.0f} %")


def print_ratios(title: str, contestants: Contestants, rounds: int) -> None:
    """Print what each takes, and how many times as much as the first in the same round: medians, too."""
    taken = take_turns(contestants, rounds)
    base = next(iter(taken.values()))
    print(f"\n{title}")
    for name, times in taken.items():
        times_base = statistics.median(own / first for own, first in zip(times, base, strict=True))
        print(f"  {name:40}{statistics.median(times):9.2f} us   x{times_base:.2f}")
