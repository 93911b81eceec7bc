"""What was sent, passed and refused over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from overlimit.limits.quantities import micros
from overlimit.simulation.figures.style import PASSED, REFUSED, axes_for, legend_above, text_colour, times_on
from overlimit.simulation.replaying import check_replay
from overlimit.simulation.tables import in_periods

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.events.events import Events
    from overlimit.simulation.periods import Every
    from overlimit.simulation.replaying import Replay

_MOST_STRETCHES = 120
_WIDTHS: Final = (0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200)
_DAY: Final = 86_400
_UNITS: Final = ((_DAY, "d"), (3600, "h"), (60, "min"), (1, "s"))


def plot_timeline(
    replay: Replay, every: Every | None = None, *, timezone: str = "UTC", ax: Axes | None = None
) -> Axes:
    """Draw what was sent, passed and refused over time.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    every
        In which periods events are counted, as for ``Replay.by_time``; by default in so many seconds that
        there are about 120 periods at most.
    timezone
        In which time zone they are shown.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: times on one, events in each period on the other.

    Raises
    ------
    TypeError
        ``replay`` is no Replay.
    InvalidLimit
        There is no such period or time zone.
    ImportError
        matplotlib is missing.
    """
    check_replay(replay)
    ax = axes_for(ax, "plot_timeline")
    every = width_for(replay.events, _MOST_STRETCHES) if every is None else every
    bounds, sent, passed = in_periods(replay, every, timezone)
    edges = bounds.view("datetime64[us]")
    if len(edges):
        ax.stairs(sent, edges, baseline=passed, fill=True, color=REFUSED, label="refused")
        ax.stairs(passed, edges, fill=True, color=PASSED, label="passed")
        ax.stairs(sent, edges, color=text_colour(), linewidth=0.8, label="sent")
        ax.set_xlim(edges[0], edges[-1])
        legend_above(ax)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"events per {duration_text(every)}")
    times_on(ax, timezone)
    return ax


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
