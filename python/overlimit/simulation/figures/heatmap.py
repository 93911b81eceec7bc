"""Who was refused when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlimit.simulation.figures.stretches import duration_text, width_for
from overlimit.simulation.figures.style import axes_for, names_beside, text_colour, times_on
from overlimit.simulation.replaying import check_replay
from overlimit.simulation.tables import allowed_in_order, by_identifier, codes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from overlimit.simulation.replaying import Replay

__all__ = ["plot_heatmap"]

_MOST_STRETCHES = 72
_LEAST_HEIGHT = 3.4
_ROW_HEIGHT = 0.16
_FONT_SIZE = 8.0
_POINTS_PER_INCH = 72


def plot_heatmap(replay: Replay, top: int = 30, *, ax: Axes | None = None) -> Axes:
    """Draw how many events of whom were refused when.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    top
        How many identifiers at most: those that were refused most, the worst hit on top.
    ax
        Axes to draw into; by default those of a new figure, which is higher for more than 15 identifiers.

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
    check_replay(replay)
    table = by_identifier(replay, None, top)
    names = table.index[table["refused"] > 0].tolist()
    ax = axes_for(ax, "plot_heatmap", max(_LEAST_HEIGHT, 1 + _ROW_HEIGHT * len(names)))
    width = round(width_for(replay.events, _MOST_STRETCHES) * 1e6)
    counts, edges = _refused(replay, names, width)
    times_on(ax)
    if not names:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "nothing was refused", transform=ax.transAxes, ha="center")
        return ax
    ax.set_yticks(range(len(names)), names_beside(ax, names), fontsize=_font_size(ax, len(names)))
    shown = np.ma.masked_equal(counts, 0)
    rows = np.arange(len(names) + 1) - 0.5
    mesh = ax.pcolormesh(edges.astype("datetime64[us]"), rows, shown, cmap=_colours(), vmin=0)
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(mesh, ax=ax, label=f"refused per {duration_text(width / 1e6)}")
    ax.invert_yaxis()
    ax.set_ylabel("identifier")
    return ax


def _colours() -> Colormap:
    """Return colours in which many refusals differ most from the background, and few are seen on it too."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, to_rgb

    is_light = sum(to_rgb(text_colour())) < 1.5
    few, many = (0.9, 0.0) if is_light else (0.2, 1.0)
    return ListedColormap(colormaps["viridis"](np.linspace(few, many, 256)))


def _font_size(ax: Axes, rows: int) -> float:
    """Return the size in points at which the names in so many rows don't touch."""
    figure = ax.get_figure()
    assert figure is not None
    points = ax.get_window_extent().height / figure.dpi * _POINTS_PER_INCH
    return min(_FONT_SIZE, 0.8 * points / rows)


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
