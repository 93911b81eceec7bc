"""What a record says in words: by its limit if that is known, else by its shape, which tells most of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlimit.command_line.operating.tables import amount, span
from overlimit.command_line.operating.values import Record, Value
from overlimit.limits import Limit

_FIRST_INSTANT = 10**15
"""Microseconds since 1970 of a time long past: what is greater, in a state, is nearly always a time."""
_SATURATED = 2**53 - 1


GUESSED = "? = guessed; give --limits"
"""What tables say below of limits with a question mark."""


@dataclass(frozen=True)
class Reading:
    """A record as it was read."""

    record: Record
    algorithm: str
    limit: Limit | None
    charged: float | None
    words: str

    @property
    def name(self) -> str:
        """The limit, or what it looks like."""
        looks = self.algorithm.replace("_", " ")
        return str(self.limit) if self.limit is not None else f"{looks}?"

    @property
    def share(self) -> float:
        """How much of the limit is used up; 0 where that is not known."""
        most = None if self.limit is None else most_of(self.limit)
        return self.charged / most if most and self.charged is not None else 0.0


def most_of(limit: Limit) -> int:
    """Return the most that a limit grants at once."""
    return limit.quota if limit.algorithm == "leaky_bucket" else limit._numbers[0]


def by_tag(limits: Iterable[Limit]) -> dict[int, Limit]:
    """Return limits by the tags of their records."""
    return {limit.tag: limit for limit in limits}


def readings_of(value: Value, known: Mapping[int, Limit], now: int) -> list[Reading]:
    """Read all records of limits that still count."""
    return [reading_of(record, known.get(record.tag), now) for record in value.limits(now)]


def reading_of(record: Record, limit: Limit | None, now: int) -> Reading:
    """Read a record."""
    algorithm = _kept_as(limit) if limit is not None else algorithm_of(record)
    return Reading(record, algorithm, limit, charged_in(record, algorithm), _words(record, algorithm, now))


def _kept_as(limit: Limit) -> str:
    """Return the algorithm whose records look as those of this limit."""
    return "token_bucket" if limit._kept_as == "paced_leaky_bucket" else limit.algorithm


def algorithm_of(record: Record) -> str:
    """Return the algorithm that a record looks like."""
    first, second, third = record.state
    has_history = any(count >= 0 for _, count in record.cells)
    if _is_instant(first) and record.expires_at == second:
        return "fixed_window"
    if _is_instant(second) and second < record.expires_at:
        return "token_bucket"
    if not _is_instant(first):
        return "sliding_window"
    if has_history or (third == second and not _is_window(record)):
        return "sliding_log"  # all of it in its newest entry, or nothing after refunds
    return "sliding_window_counter" if _is_window(record) else "leaky_bucket"


def _is_instant(number: int) -> bool:
    return number > _FIRST_INSTANT


def _is_window(record: Record) -> bool:
    """Whether the state begins with the start of a window that expires two windows later."""
    lifetime = record.expires_at - record.state[0]
    return lifetime > 0 and lifetime % 2 == 0 and record.state[0] % (lifetime // 2) == 0


def charged_in(record: Record, algorithm: str) -> float | None:
    """Return what a record counts, as of its last charge; None if that cannot be told."""
    first, second, third = record.state
    if algorithm == "token_bucket":
        units = -record.cells[0][1] if record.cells else third
        return first / units if 0 < units < _SATURATED else None
    if algorithm == "sliding_window_counter":
        return second + third
    return second if algorithm == "leaky_bucket" else third


def _words(record: Record, algorithm: str, now: int) -> str:
    first, second, third = record.state
    charged = amount(charged_in(record, algorithm))
    if algorithm == "fixed_window":
        return f"{charged} charged in the window that ends in {span(second - now)}"
    if algorithm == "token_bucket":
        used = f"{charged} tokens were used" if charged != "-" else "tokens were used, of unknown size,"
        return f"{used} as of {_ago(second, now)}{_held(record, now)}"
    if algorithm == "leaky_bucket":
        return f"{charged} were in the bucket as of {_ago(first, now)}"
    if algorithm == "sliding_window_counter":
        return f"{third:,} charged in this window and {second:,} in the one before, as of the last charge"
    if algorithm == "sliding_log":
        return f"{charged} charged; the last {second:,} {_ago(first, now)}"
    return f"{charged} charged, the last {second:,} close together"


def _held(record: Record, now: int) -> str:
    """Say what processes have leased of a token bucket: it drains only later, even if it is spent by now."""
    units = -record.cells[0][1] if record.cells else 0
    holds = [(until, count) for until, count in record.cells[1:] if until > now]
    if not holds or units <= 0:
        return ""
    held = amount(sum(count for _, count in holds) / units)
    left = span(max(until for until, _ in holds) - now)
    return f", {held} of them leased, spent or not, for up to {left} more"


def _ago(instant: int, now: int) -> str:
    return f"{span(now - instant)} ago" if now >= instant else f"{span(instant - now)} from now"


def growth(before: Record | None, after: Record, algorithm: str) -> float:
    """Return what was charged between two looks at a record.

    It is at least so much, since what drains from a bucket is not seen.
    """
    if before is None:
        return charged_in(after, algorithm) or 0.0
    if algorithm in {"sliding_window", "sliding_log"}:
        return _newer(before, after)
    if algorithm == "fixed_window" and before.state[0] != after.state[0]:
        return after.state[2]
    if algorithm == "sliding_window_counter" and before.state[0] != after.state[0]:
        is_next = 2 * (after.state[0] - before.state[0]) == after.expires_at - after.state[0]
        return after.state[2] + (max(0, after.state[1] - before.state[2]) if is_next else after.state[1])
    return max(0.0, (charged_in(after, algorithm) or 0.0) - (charged_in(before, algorithm) or 0.0))


def _newer(before: Record, after: Record) -> float:
    newest, count, _ = before.state
    history = [*after.cells, after.state[:2]]
    return sum(max(0, n - count) if at == newest else n for at, n in history if at >= newest)
