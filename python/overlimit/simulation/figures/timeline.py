"""What was sent, passed and refused over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlimit.limits.quantities import micros
from overlimit.simulation.figures.stretches import duration_text, width_for
from overlimit.simulation.figures.style import PASSED, REFUSED, axes_for, legend_above, text_colour, times_on
from overlimit.simulation.replaying import check_replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.limits.quantities import Seconds
    from overlimit.simulation.replaying import Replay

__all__ = ["plot_timeline"]

_MOST_STRETCHES = 120


def plot_timeline(replay: Replay, every: Seconds | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw what was sent, passed and refused over time.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    every
        In stretches of how many seconds events are counted; by default so that there are at most 120.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: UTC on one, events in each stretch on the other.

    Raises
    ------
    TypeError
        ``replay`` is no Replay.
    InvalidLimit
        ``every`` is outside its range.
    ImportError
        matplotlib or pandas is missing.
    """
    check_replay(replay)
    ax = axes_for(ax, "plot_timeline")
    width = width_for(replay.events, _MOST_STRETCHES) if every is None else every
    table = replay.by_time(width)
    seconds = micros(width, "every") / 1e6
    starts = table.index.tz_localize(None).to_numpy()  # type: ignore[attr-defined]
    edges = np.append(starts, starts[-1:] + np.timedelta64(round(seconds * 1e6), "us"))
    passed, sent = table["passed"].to_numpy(), table["sent"].to_numpy()
    if len(starts):
        ax.stairs(sent, edges, baseline=passed, fill=True, color=REFUSED, label="refused")
        ax.stairs(passed, edges, fill=True, color=PASSED, label="passed")
        ax.stairs(sent, edges, color=text_colour(), linewidth=0.8, label="sent")
        ax.set_xlim(edges[0], edges[-1])
        legend_above(ax)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"events per {duration_text(seconds)}")
    times_on(ax)
    return ax
