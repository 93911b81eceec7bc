"""Answers, durations and times in microseconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .algorithm import Algorithm
from .records import Key, Records

NEVER = math.inf


@dataclass(frozen=True)
class Row:
    """One (identifier, limit) pair of an answer."""

    identifier: str | bytes
    limit: Any
    policy: str
    allowed: bool
    remaining: int
    retry_after: float  # whole microseconds, or NEVER
    reset_after: int
    status: str
    delay: int


@dataclass(frozen=True)
class Receipt:
    """What one pair was charged, with the state right after and which creation of its key was charged."""

    records: Records
    key: Key
    creation: int | None
    algorithm: Algorithm
    after: Any
    cost: int
    later: Callable[[], Iterable[Algorithm]]
    """What updates have put in the place of the limit."""


@dataclass(frozen=True)
class OracleDecision:
    allowed: bool
    status: str
    remaining: int
    retry_after: float
    limit: Any
    identifier: str | bytes
    reset_after: int
    delay: int
    cost: int
    time: int
    source: str
    details: tuple[Row, ...]
    binding: Row
    receipts: list[Receipt] = field(default_factory=list, compare=False, repr=False)
    """What may still be refunded."""

    def __bool__(self) -> bool:
        return self.allowed
