"""A sweep over two numbers as a map: what each pair of them refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from overlimit._messages.texts import number_text, percent, short_repr
from overlimit.simulation.figures.style import (
    few_to_many,
    height_of,
    name_text,
    shares_on,
    text_colour,
    width_of,
)
from overlimit.simulation.questions.effects import Effects, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PIXELS_OF_A_SHARE = 46
_PIXELS_OF_A_LINE = 14
_LABEL_LENGTH = 12


def shares_of(sweep: Effects, label: str | bytes | None) -> dict[Any, float]:
    """Return the share of events that each value refuses, or of those of a label, which must occur."""
    if label is None:
        return {value: effect.refused_events for value, effect in sweep.effects.items()}
    known = labels_of(sweep.effects)
    if label not in known:
        there = ", ".join(map(short_repr, known)) or "none, until events.with_labels(...) gives some"
        raise ValueError(f"label must be one of the events, not {short_repr(label)}; there are {there}")
    return {value: effect.refused_by_label[label] for value, effect in sweep.effects.items()}


def draw_map(ax: Axes, sweep: Effects, found: Mapping[Any, float], name: str) -> None:
    """Draw the share that each pair of values refuses: a colour unless it is 0 and, if it fits, a text."""
    across, up = (_ordered([value[k] for value in sweep.effects]) for k in (0, 1))
    shares = np.array([[found[x, y] for x in across] for y in up])
    edges = (np.arange(len(values) + 1) - 0.5 for values in (across, up))
    mesh = ax.pcolormesh(
        *edges, np.ma.masked_equal(shares, 0), cmap=few_to_many(), vmin=0, vmax=shares.max() or 1
    )
    _mark(ax.xaxis, across, width_of(ax) / _PIXELS_OF_A_SHARE)
    _mark(ax.yaxis, up, height_of(ax) / _PIXELS_OF_A_LINE)
    ax.set_ylabel(name_text(sweep.names[1]))
    bar = ax.figure.colorbar(mesh, ax=ax, label=name)
    shares_on(bar.ax.yaxis)
    # The bar and names will take some of the width.
    is_wide = 0.8 * width_of(ax) / len(across) >= _PIXELS_OF_A_SHARE
    if is_wide and height_of(ax) / len(up) >= _PIXELS_OF_A_LINE:
        _write_shares(ax, mesh, shares)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Return values each once: numbers as they rise, others as they were given."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, (int, float)) for value in distinct) else distinct


def _mark(axis: Any, values: Sequence[Any], most: float) -> None:
    """Write values beside their rows or columns, at most so many of them."""
    step = -(-len(values) // max(1, int(most)))
    texts = [
        number_text(each) if isinstance(each, (int, float)) else name_text(each, _LABEL_LENGTH)
        for each in values
    ]
    axis.set_ticks(range(0, len(values), step), texts[::step])


def _write_shares(ax: Axes, mesh: Any, shares: Any) -> None:
    colours = mesh.to_rgba(shares)
    brightness = colours[..., :3] @ (0.299, 0.587, 0.114)
    for (row, column), share in np.ndenumerate(shares):
        on_colour = "black" if brightness[row, column] > 0.5 else "white"
        colour = on_colour if share else text_colour()
        ax.text(column, row, percent(share), ha="center", va="center", fontsize="x-small", color=colour)
