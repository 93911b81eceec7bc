"""What policies refuse and let through, side by side and value by value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from overlimit._messages.texts import percent, short_repr
from overlimit.simulation.figures.above import keep_in_figure, legend_above, name_above
from overlimit.simulation.figures.style import (
    COLOURS,
    LABEL_LENGTH,
    LABELS,
    OTHERS,
    REFUSED,
    SHARES,
    axes_for,
    colours_of,
    font_size,
    name_text,
    numbers_on,
    policies_beside,
    shares_on,
    text_colour,
)
from overlimit.simulation.questions.effects import Effect, Effects, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_HEIGHT = 3.4
_OTHER_HEIGHT = 1.4
_BAR_HEIGHT = 0.15
_SIZE_OF_A_SHARE = 7.0
_LEAST_SIZE = 4.5
_MARK = 4  # of which the left half is outside of the axes
_MOST_LABELS = 6
_MARKERS = "os^Dvx*P"
_WIDE = 30
"""Of how many times the smallest value on there are powers of ten on the axis."""


def plot_comparison(comparison: Effects, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw what `Comparison.plot` says, the first policy on top; very thin bars have no percentages."""
    shares = _shares(comparison.effects)
    bars_in_all = len(shares) * len(comparison.effects)
    ax = axes_for(ax, "Comparison.plot", max(_LEAST_HEIGHT, _OTHER_HEIGHT + _BAR_HEIGHT * bars_in_all))
    height = 0.8 / len(shares)
    size = font_size(ax, bars_in_all, _SIZE_OF_A_SHARE)
    for k, (name, colour, values) in enumerate(shares):
        places = [row + (k - (len(shares) - 1) / 2) * height for row in range(len(values))]
        bars = ax.barh(places, values, height * 0.92, color=colour, label=name)
        # A share that is not 0 is seen, however small it is.
        seen = np.array(places)[np.array(values) > 0]
        ax.vlines(0 * seen, seen - 0.46 * height, seen + 0.46 * height, color=colour, lw=_MARK, zorder=3)
        if size >= _LEAST_SIZE:
            ax.bar_label(bars, list(map(percent, values)), padding=2, fontsize=size)
    ax.set_yticks(range(len(comparison.effects)), policies_beside(ax, comparison.effects), linespacing=1)
    ax.invert_yaxis()
    most = max(max(values) for *_, values in shares)
    ax.set_xlim(0, 1.2 * max(0.01, most))  # room for the texts behind the bars
    ax.set_xlabel("refused")
    shares_on(ax.xaxis)
    handles = ax.get_legend_handles_labels()[0] + _left_out(ax, comparison.effects)
    legend_above(ax, handles, from_left=False)
    name_above(ax, title)
    return ax


def draw_lines(ax: Axes, sweep: Effects) -> None:
    """Draw the share that each number refuses, and the peak that passes."""
    effects = dict(sorted((_number(value), effect) for value, effect in sweep.effects.items()))
    values = list(effects)
    handles: list[Any] = []
    for (name, colour, shares), marker in zip(_shares(effects), _MARKERS, strict=False):
        handles += ax.plot(values, shares, color=colour, marker=marker, markersize=4, label=name)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("refused")
    numbers_on(ax.xaxis)
    shares_on(ax.yaxis)
    right = ax.twinx()
    peaks = [effect.peak_60s for effect in effects.values()]
    handles += right.plot(values, peaks, "--", color=text_colour(), label="peak in 60 s (right)")
    right.set_ylim(bottom=0)
    right.set_ylabel("most cost in 60 s")
    numbers_on(right.yaxis, whole=True)
    legend_above(ax, handles + _left_out(ax, effects))
    keep_in_figure(right, ax)


def plot_suggestion(suggestion: Any, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw what `Suggestion.plot` says."""
    ax = axes_for(ax, "Suggestion.plot")
    values = list(suggestion.tried)
    columns = [column for column in suggestion._columns() if column.name != "refused_spared"]
    colours = [*SHARES, *LABELS]
    for column, colour, marker in zip(columns, colours, cycle(_MARKERS)):
        ax.plot(values, column.cells, color=colour, marker=marker, markersize=4, label=name_text(column.head))
    ax.axhline(suggestion.refuse_at_most, linestyle=":", color=text_colour(), label="at most")
    if suggestion.low is not None:
        label = f"{suggestion.low:,} to {suggestion.high:,}"
        ax.axvspan(suggestion.low, suggestion.high, color=OTHERS, alpha=0.25, linewidth=0, label=label)
    if suggestion.value is not None:
        ax.axvline(suggestion.value, color=text_colour(), linewidth=1, label=f"{suggestion.value:,}")
    if values[0] > 0 and values[-1] > _WIDE * values[0]:
        ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("value")
    ax.set_ylabel("refused")
    numbers_on(ax.xaxis)
    shares_on(ax.yaxis)
    legend_above(ax)
    name_above(ax, title)
    return ax


def _shares(effects: Mapping[Any, Effect]) -> list[tuple[str, str, list[float]]]:
    """Return the refused shares with what they are of: events, identifiers, and the first labels."""
    shares = [
        ("events", SHARES[0], [effect.refused_events for effect in effects.values()]),
        ("identifiers", SHARES[1], [effect.refused_identifiers for effect in effects.values()]),
    ]
    for label, colour in list(colours_of(labels_of(effects)).items())[:_MOST_LABELS]:
        of_label = [effect.refused_by_label[label] for effect in effects.values()]
        shares.append((f"of {name_text(label, LABEL_LENGTH)}", colour, of_label))
    return shares


def _left_out(ax: Axes, effects: Mapping[Any, Effect]) -> list[Any]:
    """Return an entry of the legend that says how many labels are not shown, if any."""
    count = len(labels_of(effects)) - _MOST_LABELS
    if count <= 0:
        return []
    return ax.plot([], [], " ", label=f"{count} more label{'s' * (count > 1)} not shown")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a sweep is plotted over numbers, not {short_repr(value)}: use to_pandas()")
    return value


def plot_backtest(
    table: Any, refuse_at_most: float, timezone: str, *, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw what `Backtest.plot` says."""
    from overlimit.simulation.figures.time_axis import show_times  # which imports matplotlib

    ax = axes_for(ax, "Backtest.plot")
    times = table.index.tz_convert("UTC").tz_localize(None).to_numpy("M8[us]")
    handles = ax.plot(times, table["share"], "o", color=REFUSED, markersize=4, label="refused then")
    handles.append(ax.axhline(refuse_at_most, linestyle=":", color=text_colour(), label="at most"))
    ax.set_ylim(0, 1.2 * max(refuse_at_most, table["share"].max()) or 1)
    ax.set_ylabel("refused")
    shares_on(ax.yaxis)
    right = ax.twinx()
    values = table["value"].astype("Float64").to_numpy(float, na_value=np.nan)
    handles += right.step(times, values, where="post", color=COLOURS[0], label="value (right)")
    right.set_ylim(0, 1.4 * max(1, np.nanmax(values, initial=1)))
    right.set_ylabel("value")
    numbers_on(right.yaxis, whole=True)
    show_times(ax, timezone)
    legend_above(ax, handles)
    keep_in_figure(right, ax)
    name_above(ax, title)
    return ax
