"""What all figures share: colours, names, new axes, legends, axes of time and of shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from overlimit._messages.texts import escaped, printable
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which people who do not see all colours tell apart. Their black is a grey
# here, which is seen on dark backgrounds too.
PASSED: Final = "#56B4E9"
REFUSED: Final = "#D55E00"
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#808080", "#F0E442")

NAME_LENGTH: Final = 26
"""How many characters of an identifier are shown."""

LABEL_LENGTH: Final = 15
"""How many characters are shown of a name that is a part of an entry of a legend."""

_WIDTH: Final = 6.0
_HEIGHT: Final = 3.4
_MOST_HEIGHT: Final = 20.0
_LEGENDS: Final = ((3, "small"), (2, "small"), (2, "x-small"), (1, "small"))
_NAMES_SHARE: Final = 0.4
_PIXELS_OF_A_CHARACTER: Final = 7
_LEAST_LENGTH: Final = 9


def axes_for(ax: Axes | None, purpose: str, height: float = _HEIGHT) -> Axes:
    """Return the axes given, or those of a new figure of so many inches, for which matplotlib is needed."""
    required("matplotlib", purpose)
    if ax is not None:
        return ax
    pyplot = required("matplotlib.pyplot", purpose)
    new: Axes = pyplot.subplots(figsize=(_WIDTH, min(height, _MOST_HEIGHT)), dpi=100, layout="constrained")[1]
    return new


def width_of(ax: Axes) -> float:
    """Return how wide axes are, about, in pixels of a figure of 100 to the inch."""
    figure = ax.get_figure()
    assert figure is not None
    return float(ax.get_window_extent().width / figure.dpi * 100)


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


def _keep_titles_above(ax: Axes) -> None:
    """Have matplotlib put titles above the legend, also those that are set later.

    It puts them above whatever belongs to the axes; so something invisible is where the legend is.
    """
    place = ax.inset_axes((0, 1, 1, 0), visible=False)
    place.set_axes_locator(_place_of_legend)


def _place_of_legend(ax: Any, renderer: Any) -> Any:
    box = (ax.get_legend() or ax).get_window_extent(renderer)
    return box.transformed(ax.get_figure().transSubfigure.inverted())


def name_text(name: object, most: int = NAME_LENGTH) -> str:
    """Return a name that others chose as a label: what cannot be drawn is an escape, a long one is cut.

    The middle is left out, because both ends of names such as addresses and paths tell them apart.
    """
    text = _drawable(printable(name))
    if len(text) > most:
        tail = (most - 1) // 2
        text = f"{text[: most - 1 - tail]}\u2026{text[-tail:]}"
    return text.replace("$", r"\$")  # which would begin a formula


def names_beside(ax: Axes, names: Iterable[object]) -> list[str]:
    """Return the labels of rows, which leave most of the width to them."""
    length = min(NAME_LENGTH, int(_NAMES_SHARE * width_of(ax) / _PIXELS_OF_A_CHARACTER))
    return [name_text(name, max(_LEAST_LENGTH, length)) for name in names]


def _drawable(text: str) -> str:
    """Return a text in which characters that the fonts lack, which would be drawn as boxes, are escapes."""
    if text.isascii():
        return text
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in rcParams["font.family"]]
    known = {each for each in set(text) if any(font.get_char_index(ord(each)) for font in fonts)}
    return "".join(each if each in known else escaped(each) for each in text)


def text_colour() -> Any:
    """Return the colour that matplotlib writes texts in, which is seen on its background."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def shares_on(axis: Any) -> None:
    """Show shares from 0 to 1 as percentages."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(PercentFormatter(1.0))


def times_on(ax: Axes, timezone: str) -> None:
    """Show the instants of an axis in a time zone, as short as they can be told apart."""
    from overlimit.simulation.figures.time_axis import show_times

    show_times(ax, timezone)
