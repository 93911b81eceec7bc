"""Rate limiters known from published systems, with their own answers, made of overlimit's limits.

Every limiter here takes ``store=``, ``clock=`` and ``name=``, as ``Limiter`` does: those of one name on one
store share their counts, and without a name each has counts of its own.
"""

from __future__ import annotations

from overlimit.recipes.counter import Counter
from overlimit.recipes.period_limit import PeriodLimit, PeriodState
from overlimit.recipes.token_limiter import TokenLimiter
from overlimit.recipes.waits import wait_time

__all__ = ["Counter", "PeriodLimit", "PeriodState", "TokenLimiter", "wait_time"]
