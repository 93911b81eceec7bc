"""Rate limiters known from published systems, with their own answers, made of overlimit's limits.

Every limiter here takes ``store=``, ``clock=`` and ``name=``. Without a name its policy is called after the
recipe and its numbers: two of a kind with different numbers have state of their own, and changed numbers
start anew. Give a name to keep the state when numbers change.
"""

from __future__ import annotations

from overlimit.recipes.counter import Counter
from overlimit.recipes.period_limit import PeriodLimit, PeriodState
from overlimit.recipes.token_limiter import TokenLimiter
from overlimit.recipes.waits import wait_time

__all__ = ["Counter", "PeriodLimit", "PeriodState", "TokenLimiter", "wait_time"]
