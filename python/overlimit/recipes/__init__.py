"""Limiters made of overlimit's limits: how many at once, and those known from published systems.

Every limiter here takes ``store=``, ``clock=`` and ``name=``, as ``Limiter`` does: those of one name on one
store share their counts, and without a name each has counts of its own.
"""

from __future__ import annotations

from overlimit.recipes.concurrency import Concurrency, Slot
from overlimit.recipes.counter import Counter
from overlimit.recipes.period_limit import PeriodLimit, PeriodState
from overlimit.recipes.token_limiter import TokenLimiter
from overlimit.recipes.waits import wait_time

__all__ = ["Concurrency", "Counter", "PeriodLimit", "PeriodState", "Slot", "TokenLimiter", "wait_time"]
