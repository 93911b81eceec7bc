"""Answers of the package and of the oracle in one form, to be compared field by field."""

from __future__ import annotations

from typing import Any

from .oracle import OracleDecision

FIELDS = (
    "allowed",
    "status",
    "remaining",
    "retry_after",
    "limit",
    "identifier",
    "reset_after",
    "delay",
    "cost",
    "time",
    "source",
)
ROW_FIELDS = ("identifier", "limit", "policy", "allowed", "remaining", "retry_after", "reset_after")
TIMES = frozenset({"retry_after", "reset_after", "delay", "time"})

Answer = dict[str, Any]


def answer_of(decision: Any) -> Answer:
    """Return every field of a Decision."""
    answer = {name: getattr(decision, name) for name in FIELDS}
    assert bool(decision) is answer["allowed"]
    rows = [{name: getattr(row, name) for name in ROW_FIELDS} for row in decision.details]
    return answer | {"details": rows}


def expected_of(decision: OracleDecision) -> Answer:
    """Return what a Decision must say: as the oracle does, microseconds in seconds."""
    answer = {name: _in_seconds(name, getattr(decision, name)) for name in FIELDS}
    rows = [{name: _in_seconds(name, getattr(row, name)) for name in ROW_FIELDS} for row in decision.details]
    return answer | {"details": rows}


def _in_seconds(name: str, value: Any) -> Any:
    return value / 1e6 if name in TIMES else value


def left(limiter: Any, identifier: str | bytes = "a") -> int:
    """What remains of a limiter's limits."""
    remaining: int = limiter.peek(identifier, cost=0).remaining
    return remaining
