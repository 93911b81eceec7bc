"""What a store of one's own says of the time, beside the clock of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from overlimit.testing._trials import HELD, Seen, numbers


def wrong_times(seen: Sequence[Seen]) -> Iterator[str]:
    """Yield what is wrong with the times that were told from one call to the next."""
    given = [each.now for each in seen if each.now is not None]
    if not given:
        return
    times = [_number(now) for now in given]
    if len(given) < len(seen):
        yield "A store gives the time each time or never."
        return
    if None in times:
        yield f"now is a number of seconds since the Unix epoch, not {given[times.index(None)]!r}."
        return
    ahead = time.time() - time.monotonic()
    wrong = max(abs(now - each.before - ahead) for now, each in zip(times, seen, strict=True))
    if wrong > 60:
        yield (
            "now is in seconds since the Unix epoch, in UTC, by a clock that is right: it is "
            f"{float(wrong):.0f} seconds away from that of this machine."
        )
        return
    # By how much it is ahead of time.monotonic: at least, and at most.
    least = max(now - each.before for now, each in zip(times, seen, strict=True))
    most = min(now - each.after for now, each in zip(times, seen, strict=True))
    if least > most + 0.1 + _steps_of(times):
        yield "now goes on as time does, and never backward: it is read anew for each transaction."


def _number(now: Any) -> Any:
    try:
        return Fraction(now)
    except (TypeError, ValueError, OverflowError):
        return None


def _steps_of(times: Sequence[Any]) -> int:
    """Return the seconds from one reading of a clock to the next, which may be whole ones."""
    return int(all(now.denominator == 1 for now in times))


def times_before_waits(first: Seen, second: Seen) -> Iterator[str]:
    """Yield what is wrong with the times of two, one of whom saw what the other wrote."""
    times = [_number(first.now), _number(second.now)]
    if None in times or _steps_of(times):
        return
    is_first = sum(numbers(first.values)) < sum(numbers(second.values))
    (earlier, later), waited = (times, HELD / 2) if is_first else (times[::-1], 0.0)
    if later - earlier < waited:
        yield "now is the time at which the values are held, after any waiting for others."
