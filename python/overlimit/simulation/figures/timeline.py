"""What was sent, passed and refused over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlimit.simulation.figures.stretches import duration_text, width_for
from overlimit.simulation.figures.style import PASSED, REFUSED, axes_for, legend_above, text_colour, times_on
from overlimit.simulation.replaying import check_replay
from overlimit.simulation.tables import in_periods

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.periods import Every
    from overlimit.simulation.replaying import Replay

__all__ = ["plot_timeline"]

_MOST_STRETCHES = 120


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
