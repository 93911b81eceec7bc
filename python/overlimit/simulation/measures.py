"""What is measured on columns of events in the order of their times: numpy alone, a few passes each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["lock_outs", "peak"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def peak(times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost in any interval [t, t + period): of events in order, whose times are in us.

    The busiest interval starts at an event, so these are the only ones looked at.
    """
    if len(times) == 0:
        return 0
    before = np.concatenate(([0], np.cumsum(cost)))
    ends = np.searchsorted(times, times + period_us, side="left")
    return int((before[ends] - before[:-1]).max())


def peak_of_any(codes: npt.NDArray[np.int32], times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost of one identifier in any interval (t - period, t].

    The events of one identifier after the other are laid on a single line of time, too far apart for an
    interval to touch two.
    """
    if len(times) == 0:
        return 0
    start, end = int(times[0]), int(times[-1])
    apart = end - start + period_us + 1
    order = np.lexsort((times, codes))
    ranks = np.unique(codes[order], return_inverse=True)[1]
    return peak(times[order] - start + ranks * apart, cost[order], period_us)


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
