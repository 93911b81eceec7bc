"""What policies refuse and let through, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from overlimit._messages.texts import percent, short_repr
from overlimit.simulation.figures.style import (
    COLOURS,
    LABEL_LENGTH,
    axes_for,
    legend_above,
    name_text,
    names_beside,
    shares_on,
)
from overlimit.simulation.questions.effects import Effect, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.questions.comparing import Comparison
    from overlimit.simulation.questions.sweeping import Sweep

_MOST_LABELS = len(COLOURS) - 2
_LEAST_HEIGHT = 3.4
_OTHER_HEIGHT = 1.4
_BAR_HEIGHT = 0.15
_PIXELS_OF_A_TEXT = 13
_MARKERS = "os^Dvx*P"


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw what `Comparison.plot` says, the first policy on top; thin bars have no percentages."""
    shares = _shares(comparison.effects)
    bars_in_all = len(shares) * len(comparison.effects)
    ax = axes_for(ax, "Comparison.plot", max(_LEAST_HEIGHT, _OTHER_HEIGHT + _BAR_HEIGHT * bars_in_all))
    height = 0.8 / len(shares)
    is_written = ax.get_window_extent().height / bars_in_all > _PIXELS_OF_A_TEXT
    for k, (name, values) in enumerate(shares):
        places = [row + (k - (len(shares) - 1) / 2) * height for row in range(len(values))]
        bars = ax.barh(places, values, height * 0.92, color=COLOURS[k], label=name)
        if is_written:
            ax.bar_label(bars, list(map(percent, values)), padding=2, fontsize="x-small")
    ax.set_yticks(range(len(comparison.effects)), names_beside(ax, comparison.effects))
    ax.invert_yaxis()
    most = max(max(values) for _, values in shares)
    ax.set_xlim(0, 1.2 * max(0.01, most))  # room for the texts behind the bars
    ax.set_xlabel("refused")
    shares_on(ax.xaxis)
    handles = ax.get_legend_handles_labels()[0] + _left_out(ax, comparison.effects)
    legend_above(ax, handles, from_left=False)
    return ax


def plot_sweep(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Draw the share of events, identifiers and labels that each value refuses, and the peak that passes.

    Parameters
    ----------
    sweep
        What ``sweep`` returns, over numbers.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the shares; a second axis on their right shows the most cost that passes in 60 seconds.
        Of the labels of events the first six are shown; the legend says how many more there are.

    Raises
    ------
    TypeError
        The values of the sweep are no numbers.
    ModuleNotFoundError
        matplotlib is missing.
    """
    ax = axes_for(ax, "plot_sweep")
    effects = dict(sorted((_number(value), effect) for value, effect in sweep.effects.items()))
    values = list(effects)
    handles: list[Any] = []
    for k, (name, shares) in enumerate(_shares(effects)):
        handles += ax.plot(values, shares, color=COLOURS[k], marker=_MARKERS[k], markersize=4, label=name)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("value")
    ax.set_ylabel("refused")
    shares_on(ax.yaxis)
    right = ax.twinx()
    peaks = [effect.peak_60s for effect in effects.values()]
    handles += right.plot(values, peaks, "--", color="0.5", label="peak in 60 s (right)")
    right.set_ylim(bottom=0)
    right.set_ylabel("most cost in 60 s")
    legend_above(ax, handles + _left_out(ax, effects))
    return ax


def _shares(effects: Mapping[Any, Effect]) -> list[tuple[str, list[float]]]:
    """Return the refused shares with what they are of: events, identifiers, and as many labels as colours."""
    shares = [
        ("events", [effect.refused_events for effect in effects.values()]),
        ("identifiers", [effect.refused_identifiers for effect in effects.values()]),
    ]
    for label in labels_of(effects)[:_MOST_LABELS]:
        of_label = [effect.refused_by_label[label] for effect in effects.values()]
        shares.append((f"of {name_text(label, LABEL_LENGTH)}", of_label))
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
