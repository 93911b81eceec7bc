"""What is measured on columns of events in the order of their times: numpy alone, a few passes each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["lock_outs", "peak", "peak_of_any"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def peak(times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost in any interval [t, t + period): of events in order, whose times are in us.

    The busiest interval starts at an event, so these are the only ones looked at.
    """
    if len(times) == 0:
        return 0
    return _most_between(cost, np.searchsorted(times, times + period_us, side="left"))


def peak_of_any(codes: npt.NDArray[np.int32], times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost of one identifier in any interval [t, t + period)."""
    if len(times) == 0:
        return 0
    order = np.argsort(codes, kind="stable")
    codes, times, cost = codes[order], times[order], cost[order]
    is_first = np.r_[True, codes[1:] != codes[:-1]]
    behind_last = np.r_[np.flatnonzero(is_first)[1:], len(codes)]
    return _most_between(cost, _ends(times, behind_last[np.cumsum(is_first) - 1], period_us))


def _ends(times: Ints, behind_last: Ints, period_us: int) -> Ints:
    """Return for each event the first that comes a period later, at most that behind its identifier's last.

    All are searched at once, each by halving what is left.
    """
    low, high = np.arange(len(times)), behind_last.copy()
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        # Where the search is over, both bounds stay what they are.
        inside = (middle < high) & (times[np.minimum(middle, len(times) - 1)] < times + period_us)
        low, high = np.where(inside, middle + 1, low), np.where(inside, high, middle)
    return low


def _most_between(cost: Ints, ends: Ints) -> int:
    """Return the most cost of the events from one to before its end."""
    total = float(cost.sum(dtype=np.float64))
    before = np.concatenate(([0], np.cumsum(cost, dtype=np.int64 if total < 2**62 else object)))
    return int((before[ends] - before[:-1]).max())


def lock_outs(codes: npt.NDArray[np.int32], times: Ints, allowed: Bools, identifiers: int) -> Ints:
    """Return the longest lock-out of each identifier in us: from a first refusal to the next admission.

    One that never ends is counted up to the identifier's last event; 0 without a refusal.

    Parameters
    ----------
    codes, times, allowed
        One row per event, in the order of the times; each code is below ``identifiers``.
    identifiers
        How many there are.
    """
    longest = np.zeros(identifiers, np.int64)
    if len(times) == 0:
        return longest
    order = np.argsort(codes, kind="stable")
    codes, times, allowed = codes[order], times[order], allowed[order]
    is_first = np.r_[True, codes[1:] != codes[:-1]]
    begins = ~allowed & (is_first | np.r_[True, allowed[:-1]])
    # The event that ends it: the next admission, or else the last event of the identifier.
    is_end = allowed | np.r_[is_first[1:], True]
    ends = np.flatnonzero(is_end)
    starts = np.flatnonzero(begins)
    until = ends[np.searchsorted(ends, starts, side="left")]
    np.maximum.at(longest, codes[starts], times[until] - times[starts])
    return longest
