"""What happened, and whether it was within what is promised."""

from __future__ import annotations

import collections
import os
from dataclasses import dataclass, field
from pathlib import Path

from .worker import Tally

RECOVERY = 3.0
LATE = 1.0
"""Seconds: after which a healed store is used again, and by which a call may outlast its timeout here."""

_MORE_DESCRIPTORS = 6
_MORE_MEMORY_KB = 16 * 1024


@dataclass
class Resources:
    """What a process has open and in memory, second by second."""

    descriptors: list[int] = field(default_factory=list)
    memory_kb: list[int] = field(default_factory=list)

    def sample(self, pid: int) -> None:
        self.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
        self.memory_kb.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4)

    def leaks(self) -> list[str]:
        return [
            f"{what} grew from {max(early)} to {min(late)}"
            for what, samples, more in (
                ("descriptors", self.descriptors, _MORE_DESCRIPTORS),
                ("kB of memory", self.memory_kb, _MORE_MEMORY_KB),
            )
            for early, late in [_thirds(samples)]
            if samples and min(late) > max(early) + more
        ]


def _listed(counts: collections.Counter[str]) -> str:
    return f"{counts.total()}: " + ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))


def _thirds(samples: list[int]) -> tuple[list[int], list[int]]:
    third = max(1, len(samples) // 3)
    return samples[:third], samples[-third:]


@dataclass
class Verdict:
    """The bookkeeping of a soak; ``limit`` is what one round may admit, ``timeout`` a call's."""

    limit: int
    timeout: float
    tallies: dict[tuple[str, int], Tally] = field(default_factory=dict)
    losses: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    planned: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: collections.Counter[str] = field(default_factory=collections.Counter)
    failed_faults: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def complain(self, complaint: str) -> None:
        self.complaints.append(complaint)

    def plan(self, fault: str) -> None:
        """Expect a fault to take place once more than planned so far."""
        self.planned[fault] += 1

    def note_fault(self, fault: str) -> None:
        self.faults[fault] += 1

    def note_failed_fault(self, fault: str, error: Exception) -> None:
        """A fault ended otherwise than it should: it doesn't count as one that took place."""
        self.failed_faults.append(f"{fault}: {error}")

    def note_loss(self, target: str, first_round: int, last_round: int) -> None:
        """Keys may have been lost in these rounds: their identifiers may begin anew."""
        # A call of the round before may still have been under way.
        for number in range(first_round - 1, last_round + 1):
            self.losses[target, number] += 1

    def note_recovery(self, fault: str, seconds: float | None) -> None:
        if seconds is None:
            self.complaints.append(f"not used again within {RECOVERY} s after: {fault}")
        else:
            self.recoveries.append(seconds)

    def enter(self, tally: Tally) -> None:
        known = self.tallies.setdefault((tally.target, tally.round), Tally(tally.target, tally.round))
        known.add(tally)

    def compare(self, target: str, number: int, counted: int) -> None:
        """Hold a round of which no key was lost against what the server has counted."""
        tally = self.tallies.get((target, number))
        if tally is None or self.losses[target, number]:
            return
        if not 0 <= counted - tally.acknowledged <= tally.unknown:
            self.complaints.append(
                f"{target}, round {number}: counted {counted}, acknowledged {tally.acknowledged}, "
                f"unknown {tally.unknown}"
            )

    def over_admissions(self) -> int:
        return sum(
            max(0, tally.acknowledged - self.limit * (1 + self.losses[place]))
            for place, tally in self.tallies.items()
        )

    def close(self, resources: dict[str, Resources]) -> None:
        """Draw the conclusions."""
        if over := self.over_admissions():
            self.complaints.append(f"{over} admitted beyond the limit")
        slowest = max((tally.slowest for tally in self.tallies.values()), default=0.0)
        if slowest > self.timeout + LATE:
            self.complaints.append(f"a call took {slowest:.2f} s with a timeout of {self.timeout} s")
        if not any(tally.acknowledged for tally in self.tallies.values()):
            self.complaints.append("nothing was ever admitted")
        for fault in self.planned - self.faults:
            times, planned = self.faults[fault], self.planned[fault]
            self.complain(f"{fault} took place {times} times, {planned} times were planned")
        for name, used in resources.items():
            self.complaints += [f"{name}: {leak}" for leak in used.leaks()]

    def report(self) -> str:
        total = Tally("", 0)
        for tally in self.tallies.values():
            total.add(tally)
        lines = [
            f"decisions      {total.acknowledged + total.refused} ({total.acknowledged} admitted) "
            f"in {len(self.tallies)} rounds",
            f"failed calls   {total.failed} without a charge, {total.unknown} with unknown outcome",
            f"slowest call   {total.slowest:.3f} s",
            f"faults         {_listed(self.faults)}",
            f"planned        {_listed(self.planned)}",
            *(f"failed fault   {failed}" for failed in self.failed_faults),
            f"recovery       at most {max(self.recoveries, default=0.0):.2f} s",
            f"over-admitted  {self.over_admissions()}",
            *(f"WRONG          {complaint}" for complaint in self.complaints),
        ]
        if self.complaints:
            lines += [
                f"last error     {target}, round {number}: {tally.last_error}"
                for (target, number), tally in sorted(self.tallies.items())
                if tally.last_error
            ]
        return "\n".join(lines)
