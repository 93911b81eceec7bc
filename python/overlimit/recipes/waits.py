"""The wait as the one answer."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from overlimit._core import Decision
from overlimit._messages.texts import short_repr
from overlimit.limits.quantities import Seconds

_MICROSECOND = timedelta(microseconds=1)


def wait_time(decision: Decision, unit: Seconds = 1) -> int:
    """Return how long to wait before the same call can pass: one number that says it all.

    Parameters
    ----------
    decision
        What ``hit``, ``peek`` or ``hit_all`` answered.
    unit
        What to count in, in seconds: 1 for seconds, 0.001 for milliseconds.

    Returns
    -------
    int
        0 when the call has passed, -1 when it never can, else the whole units after which it can: rounded up,
        without rounding errors.

    Raises
    ------
    ValueError, TypeError
        The unit is not a finite number above 0, or the decision is not a Decision.

    Notes
    -----
    Source: the return value of kaciras' RedisTokenBucket.
    """
    length = _exact(unit)
    if not isinstance(decision, Decision):
        raise TypeError(f"decision must be a Decision, as hit() returns it, not {short_repr(decision)}")
    if decision.allowed:
        return 0
    if math.isinf(decision.retry_after):
        return -1
    return math.ceil(Fraction(round(decision.retry_after * 1_000_000), 1_000_000) / length)


def _exact(unit: Seconds) -> Fraction:
    """Return a unit as it is written: the float 0.1 is one tenth."""
    if isinstance(unit, bool) or not isinstance(unit, int | float | Fraction | Decimal | timedelta):
        raise TypeError(f"unit must be a number of seconds, not {short_repr(unit)}")
    if isinstance(unit, timedelta):
        unit = Fraction(unit // _MICROSECOND, 1_000_000)
    try:
        length = Fraction(float.__repr__(unit) if isinstance(unit, float) else unit)
    except (OverflowError, ValueError):
        length = Fraction(0)
    if length <= 0:
        raise ValueError(f"unit must be a finite number of seconds above 0, not {short_repr(unit)}")
    return length
