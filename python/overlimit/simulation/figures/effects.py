"""What policies refuse and let through, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from overlimit._arguments import shown
from overlimit.simulation.figures.style import COLOURS, axes_for, legend_above, shares_on, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.questions.comparing import Comparison
    from overlimit.simulation.questions.effects import Effect
    from overlimit.simulation.questions.sweeping import Sweep

__all__ = ["plot_comparison", "plot_sweep"]

_MOST_LABELS = 4
_MARKERS = "os^Dvx"


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the share of events, identifiers and labels that each policy refuses, as bars.

    Parameters
    ----------
    comparison
        What ``compare`` returns.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: shares on one, the policies on the other, the first on top.

    Raises
    ------
    ImportError
        matplotlib is missing.
    """
    ax = axes_for(ax, "Comparison.plot")
    shares = _shares(comparison.effects)
    height = 0.8 / len(shares)
    for k, (name, values) in enumerate(shares.items()):
        places = [row + (k - (len(shares) - 1) / 2) * height for row in range(len(values))]
        bars = ax.barh(places, values, height * 0.92, color=COLOURS[k], label=name)
        ax.bar_label(bars, [f"{value:.1%}" for value in values], padding=2, fontsize="x-small")
    ax.set_yticks(range(len(comparison.effects)), [verbatim(name) for name in comparison.effects])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel("refused")
    shares_on(ax.xaxis)
    legend_above(ax)
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

    Raises
    ------
    TypeError
        The values of the sweep are no numbers.
    ImportError
        matplotlib is missing.
    """
    ax = axes_for(ax, "plot_sweep")
    effects = dict(sorted((_number(value), effect) for value, effect in sweep.effects.items()))
    values = list(effects)
    handles: list[Any] = []
    for k, (name, shares) in enumerate(_shares(effects).items()):
        handles += ax.plot(values, shares, color=COLOURS[k], marker=_MARKERS[k], markersize=4, label=name)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("value")
    ax.set_ylabel("refused")
    shares_on(ax.yaxis)
    right = ax.twinx()
    peaks = [effect.peak_60s for effect in effects.values()]
    handles += right.plot(values, peaks, "--", color="0.45", label="peak in 60 s (right)")
    right.set_ylim(bottom=0)
    right.set_ylabel("most cost passed in 60 s", color="0.35")
    legend_above(ax, handles)
    return ax


def _shares(effects: Mapping[Any, Effect]) -> dict[str, list[float]]:
    """Return the refused shares by what they are of: events, identifiers, and up to four labels."""
    shares = {
        "events": [effect.refused_events for effect in effects.values()],
        "identifiers": [effect.refused_identifiers for effect in effects.values()],
    }
    labels = list(next(iter(effects.values())).refused_by_label)[:_MOST_LABELS]
    for label in labels:
        shares[f"events of {verbatim(label)}"] = [
            effect.refused_by_label[label] for effect in effects.values()
        ]
    return shares


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a sweep is plotted over numbers, not {shown(value)}: use to_pandas()")
    return value
