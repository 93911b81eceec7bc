"""What all figures share: colours, new axes, axes of time and of shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from overlimit.simulation.optional import required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "PASSED",
    "REFUSED",
    "SENT",
    "axes_for",
    "legend_above",
    "shares_on",
    "times_on",
    "verbatim",
]

# The colours of Okabe and Ito, which people who don't see all colours tell apart.
PASSED: Final = "#56B4E9"
REFUSED: Final = "#D55E00"
SENT: Final = "#000000"
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")


def axes_for(ax: Axes | None, purpose: str) -> Axes:
    """Return the axes given, or those of a new figure; raise ImportError without matplotlib."""
    required("matplotlib", purpose)
    if ax is not None:
        return ax
    pyplot = required("matplotlib.pyplot", purpose)
    new: Axes = pyplot.subplots(figsize=(6, 3.4), dpi=100, layout="constrained")[1]
    return new


def legend_above(ax: Axes, handles: list[Any] | None = None, columns: int = 3) -> None:
    """Put the legend above the axes, where it hides nothing."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
    )


def verbatim(name: object) -> str:
    """Return a name as a label that shows it as it is, though matplotlib takes ``$`` for a formula."""
    return str(name).replace("$", r"\$")


def shares_on(axis: Any) -> None:
    """Show shares from 0 to 1 as percentages."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0))


def times_on(ax: Axes) -> None:
    """Show instants in UTC, as short as they can be told apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel("time (UTC)")
