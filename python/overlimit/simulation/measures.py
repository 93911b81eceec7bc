"""What is measured on columns of events in the order of their times: numpy alone, a few passes each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def peak(times: Ints, cost: Ints, period_us: int) -> int:
    """Return the most cost in any interval [t, t + period) of events in order; the busiest begins at one."""
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


def lock_outs(
    codes: npt.NDArray[np.int32], times: Ints, allowed: Bools, retry_after: Floats, identifiers: int
) -> Floats:
    """Return the longest lock-out of each identifier in seconds, 0 without a refusal, infinity for never.

    There is a row for each event, in the order of the times. A lock-out lasts from a refusal to the instant
    at which the limits would have let it pass, as the last refusal before that said, or to an admission
    before. Whether it came back at that instant does not matter.
    """
    longest = np.zeros(identifiers)
    order = np.argsort(codes, kind="stable")
    codes, times, refused = codes[order], times[order], ~allowed[order]
    passes = times + np.rint(retry_after[order] * 1e6)
    is_same = codes[1:] == codes[:-1]
    goes_on = np.r_[False, is_same & refused[1:] & refused[:-1] & (times[1:] < passes[:-1])][: len(codes)]
    starts = np.flatnonzero(refused & ~goes_on)
    lasts = np.flatnonzero(refused & ~np.r_[goes_on[1:], False][: len(codes)])
    following = np.minimum(lasts + 1, len(codes) - 1)
    # The next event of the same identifier is an admission, or a refusal once it could have passed.
    is_cut = (following > lasts) & (codes[following] == codes[lasts])
    ends = np.where(is_cut, np.minimum(passes[lasts], times[following]), passes[lasts])
    np.maximum.at(longest, codes[starts], (ends - times[starts]) / 1e6)
    return longest
