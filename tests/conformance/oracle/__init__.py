"""The reference model: what docs/semantics.md says, in the plainest Python, slowly.

It shares no code with the package and reads nothing of a limit but its algorithm, its numbers, its name and,
of a calendar window, what names the calendar. All times are integer microseconds. An algorithm is one class
of pure functions of (state, now, cost), a state of None being "never seen"; the rules that hold for every
algorithm are applied once, in ``Pair`` and ``Call``.
"""

from __future__ import annotations

from .answer import NEVER, OracleDecision, Row
from .call import Charge, hit_all, peek_all
from .plain import PlainLimit, PlainPenalty
from .policy import Oracle
from .records import Records

__all__ = [
    "NEVER",
    "Charge",
    "Oracle",
    "OracleDecision",
    "PlainLimit",
    "PlainPenalty",
    "Records",
    "Row",
    "hit_all",
    "peek_all",
]
