"""Who was refused when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlimit.simulation.figures.stretches import duration_text, width_for
from overlimit.simulation.figures.style import axes_for, times_on, verbatim
from overlimit.simulation.tables import allowed_in_order, by_identifier, codes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.replaying import Replay

__all__ = ["plot_heatmap"]

_MOST_STRETCHES = 72


def plot_heatmap(replay: Replay, top: int = 30, *, ax: Axes | None = None) -> Axes:
    """Draw how many events of whom were refused when.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    top
        How many identifiers at most: those that were refused most, the worst hit on top.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: UTC on one, identifiers on the other; the colour is the events refused in each stretch of
        time. An event counts for the first identifier that it has.

    Raises
    ------
    ImportError
        matplotlib or pandas is missing.
    """
    ax = axes_for(ax, "plot_heatmap")
    table = by_identifier(replay, None, top)
    names = table.index[table["refused"] > 0].tolist()
    width = round(width_for(replay.events, _MOST_STRETCHES) * 1e6)
    counts, edges = _refused(replay, names, width)
    times_on(ax)
    if not names:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "nothing was refused", transform=ax.transAxes, ha="center")
        return ax
    shown = np.ma.masked_equal(counts, 0)
    rows = np.arange(len(names) + 1) - 0.5
    mesh = ax.pcolormesh(edges.astype("datetime64[us]"), rows, shown, cmap="viridis", vmin=0)
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(mesh, ax=ax, label=f"refused per {duration_text(width / 1e6)}")
    ax.set_yticks(range(len(names)), [verbatim(name) for name in names], fontsize=8 if len(names) < 16 else 6)
    ax.invert_yaxis()
    ax.set_ylabel("identifier")
    return ax


def _refused(
    replay: Replay, names: list[object], width: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the refused events of each name in each stretch, and where the stretches begin and end."""
    codes, labels = codes_of(replay.events, None)
    rows = {name: row for row, name in enumerate(names)}
    row_of = np.array([*(rows.get(label, -1) for label in labels.tolist()), -1])[codes]
    places = replay.events.times // width
    first, last = (int(places[0]), int(places[-1])) if len(places) else (0, -1)
    counts = np.zeros((len(names), last - first + 1), np.int64)
    which = ~allowed_in_order(replay) & (row_of >= 0)
    np.add.at(counts, (row_of[which], places[which] - first), 1)
    return counts, np.arange(first, last + 2) * width
