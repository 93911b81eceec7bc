"""How long the stretches of time are that a figure counts in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from overlimit.limits.quantities import micros

if TYPE_CHECKING:
    from overlimit.simulation.events.events import Events
    from overlimit.simulation.periods import Every

__all__ = ["duration_text", "width_for"]

_WIDTHS: Final = (0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200)
_DAY: Final = 86_400
_UNITS: Final = ((_DAY, "d"), (3600, "h"), (60, "min"), (1, "s"))


def width_for(events: Events, most: int) -> float:
    """Return the shortest round number of seconds of which at most so many cover the events."""
    seconds = (int(events.times[-1]) - int(events.times[0])) / 1e6 if len(events) else 0.0
    days = -(-seconds // (_DAY * (most - 1)))
    # Stretches begin at round times, so there may be one more.
    return next((width for width in _WIDTHS if seconds <= width * (most - 1)), _DAY * days)


def duration_text(every: Every) -> str:
    """Return a period in the largest unit of which it is a whole number: ``5 min``, ``h`` for one hour."""
    if isinstance(every, str):
        return every
    seconds = micros(every, "every") / 1e6
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return unit if seconds == size else f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
