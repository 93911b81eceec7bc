"""What stands above axes: a legend, and above it a title."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from overlimit._messages.texts import printable
from overlimit.simulation.figures.style import LEAST_LENGTH, PIXELS_OF_A_CHARACTER, drawable, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEGENDS: Final = ((3, "small"), (2, "small"), (2, "x-small"), (1, "small"))
_POINTS_PER_INCH: Final = 72


def legend_above(ax: Axes, handles: list[Any] | None = None, *, from_left: bool = True) -> None:
    """Put the legend above the axes, where it hides nothing, in as many columns as have room."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    for columns, size in _LEGENDS:
        legend = ax.legend(
            handles=handles,
            loc="lower left" if from_left else "lower right",
            bbox_to_anchor=(0 if from_left else 1, 1),
            ncols=columns,
            frameon=False,
            fontsize=size,
            borderaxespad=0.2,
            labelspacing=0.3,
            columnspacing=1.2,
            handlelength=1.6,
        )
        # Axes are laid out later, and then become a little wider.
        if legend.get_window_extent().width <= 1.05 * ax.get_window_extent().width:
            break
    _keep_titles_above(ax)
    keep_in_figure(ax, ax)


def _keep_titles_above(ax: Axes) -> None:
    """Have matplotlib put titles above the legend, also those that are set later.

    It puts them above whatever belongs to the axes; so something invisible is where the legend is.
    """
    place = ax.inset_axes((0, 1, 1, 0), visible=False)
    place.set_axes_locator(_place_of_legend)


def _place_of_legend(ax: Any, renderer: Any) -> Any:
    box = (ax.get_legend() or ax).get_window_extent(renderer)
    return box.transformed(ax.get_figure().transSubfigure.inverted())


def keep_in_figure(ax: Axes, of: Axes) -> None:
    """Make axes lower where what is above others, at the same place, would not fit into the figure.

    A figure with a layout engine makes room by itself.
    """
    ax.set_axes_locator(_Lower(ax, of))


class _Lower:
    """Says where axes are when they are drawn."""

    def __init__(self, ax: Axes, of: Axes) -> None:
        self._ax, self._of = ax, of

    def __call__(self, ax: Any, renderer: Any) -> Any:
        from matplotlib.transforms import Bbox

        box = self._ax.get_position(original=True)
        figure: Any = self._ax.get_figure()
        if figure.get_layout_engine() is not None:
            return box
        top = 1 - _height_above(self._of, renderer) / figure.bbox.height
        return Bbox.from_extents(box.x0, box.y0, box.x1, max(min(box.y1, top), (box.y0 + box.y1) / 2))

    def get_subplotspec(self) -> Any:
        """Return where the axes are in a grid; ``tight_layout`` asks for it."""
        return self._ax.get_subplotspec()


def _height_above(ax: Any, renderer: Any) -> float:
    """Return how many pixels a legend and titles need."""
    from matplotlib import rcParams

    pad = rcParams["axes.titlepad"] / _POINTS_PER_INCH * ax.get_figure().dpi
    legend = ax.get_legend()
    heights = [
        title.get_window_extent(renderer).height
        for title in (ax.title, ax._left_title, ax._right_title)
        if title.get_text()
    ]
    height = legend.get_window_extent(renderer).height if legend else 0.0
    return float(height + max(heights, default=0.0) + 2 * pad)


def name_above(ax: Axes, title: str | None, policy: str = "") -> None:
    """Put a title above axes: the policy unless another is given or there; an empty one is none."""
    if title is None and (not policy or ax.get_title() or ax.get_title("left") or ax.get_title("right")):
        return
    text = title if title is not None else _in_lines(policy, int(width_of(ax) / PIXELS_OF_A_CHARACTER))
    ax.set_title(text, fontsize="medium")
    if title is None:
        _make_way_for_titles(ax, text)


def _make_way_for_titles(ax: Any, text: str) -> None:
    """Remove a title that nobody has written once there is one on the left or on the right."""

    def make_way(_: object) -> None:
        if ax.get_title() == text and (ax.get_title("left") or ax.get_title("right")):
            ax.title.set_text("")

    for beside in (ax._left_title, ax._right_title):
        beside.add_callback(make_way)


def _in_lines(text: str, width: int) -> str:
    """Return a text that others chose in lines so wide, at most two."""
    lines = textwrap.wrap(
        drawable(printable(text)), max(LEAST_LENGTH, width), max_lines=2, placeholder="\u2026"
    )
    return "\n".join(lines).replace("$", r"\$")
