"""What all figures share: colours, names, new axes, axes of time, of shares and of numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overlimit._messages.texts import escaped, number_text, printable
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from overlimit.limits import Limit
    from overlimit.limits.penalty import Penalty

# The colours of Okabe and Ito, which people who do not see all colours tell apart. Their black is a grey
# here, which is seen on dark backgrounds too.
PASSED: Final = "#56B4E9"
REFUSED: Final = "#D55E00"
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#808080", "#F0E442")

SHARES: Final = COLOURS[0], COLOURS[4]
"""The colours of the shares of events and of identifiers."""

LABELS: Final = (
    *(COLOURS[k] for k in (5, 3, 1, 2, 7)),
    *("#882255", "#332288", "#44AA99", "#999933", "#AA4499", "#117733", "#661100"),
)
"""The colours of labels, the further ones of Tol: the k-th label of events has the k-th in every figure."""

OTHERS: Final = COLOURS[6]
"""The colour of all labels that have none of their own."""

NAME_LENGTH: Final = 26
"""How many characters of an identifier are shown."""

LABEL_LENGTH: Final = 15
"""How many characters are shown of a name that is a part of an entry of a legend."""

_WIDTH: Final = 6.0
_HEIGHT: Final = 3.4
_MOST_HEIGHT: Final = 20.0
_NAMES_SHARE: Final = 0.4
_WIDE_SHARE: Final = 0.5
_WIDE: Final = 400
PIXELS_OF_A_CHARACTER: Final = 7
_PIXELS_OF_A_LINE: Final = 15
_POINTS_PER_PIXEL: Final = 0.72
_MOST_LINES: Final = 3
LEAST_LENGTH: Final = 9
_LEAST_LABEL: Final = 5


def colours_of(labels: Iterable[str | bytes]) -> dict[str | bytes, str]:
    """Return the colour of each label of events, in their order; after twelve, colours come again."""
    return dict(zip(labels, cycle(LABELS), strict=False))


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
    return float(ax.get_window_extent().width / ax.figure.dpi * 100)


def height_of(ax: Axes) -> float:
    """Return how high axes are, in the same pixels."""
    return float(ax.get_window_extent().height / ax.figure.dpi * 100)


def font_size(ax: Axes, rows: int, most: float) -> float:
    """Return the size in points, at most so much, at which texts in so many rows do not touch."""
    return min(most, 0.8 * _POINTS_PER_PIXEL * height_of(ax) / rows)


def name_text(name: object, most: int = NAME_LENGTH) -> str:
    """Return a name that others chose as a label: what cannot be drawn is an escape, a long one is cut.

    The middle is left out, because both ends of names such as addresses and paths tell them apart.
    """
    return _cut(drawable(printable(name)), most).replace("$", r"\$")  # which would begin a formula


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}\u2026{text[-tail:]}"


def policy_text(limits: Sequence[Limit], penalty: Penalty | None) -> str:
    """Return limits, and how long a penalty locks, in a line."""
    levels = [] if penalty is None else [number_text(level) for level in penalty.levels]
    return "; ".join([*map(str, limits), *([f"locks for {', '.join(levels)} s"] if levels else [])])


def policies_beside(ax: Axes, names: Collection[object]) -> list[str]:
    """Return the names of rows, which leave them half of the width, in up to three lines if there is room."""
    width = width_of(ax)
    share = _WIDE_SHARE if width >= _WIDE else _NAMES_SHARE
    length = max(LEAST_LENGTH, int(share * width / PIXELS_OF_A_CHARACTER))
    lines = min(_MOST_LINES, max(1, int(height_of(ax) / len(names) / _PIXELS_OF_A_LINE)))
    return [_in_lines(drawable(printable(name)), length, lines) for name in names]


def _in_lines(text: str, length: int, most: int) -> str:
    """Return a text in lines, at most so many; what has no room is left out of its middle."""
    lines = [text]
    for kept in range(length * most, length - 1, -1):
        lines = textwrap.wrap(_cut(text, kept), length)
        if len(lines) <= most:
            break
    return "\n".join(lines).replace("$", r"\$")


def identifiers_beside(ax: Axes, names: Iterable[object], labels: Mapping[Any, object]) -> list[str]:
    """Return the texts of rows, which leave most of the width to them, with labels behind in brackets."""
    length = int(_NAMES_SHARE * width_of(ax) / PIXELS_OF_A_CHARACTER)
    of_label = max(_LEAST_LABEL, length - LEAST_LENGTH - len(" ()"))
    texts = []
    for name in names:
        label = labels.get(name)
        behind = f" ({name_text(label, of_label)})" if label else ""
        texts.append(name_text(name, max(LEAST_LENGTH, length - len(behind))) + behind)
    return texts


def drawable(text: str) -> str:
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


def few_to_many() -> Colormap:
    """Return colours in which many refusals differ most from the background, and few are seen on it too."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, to_rgb

    is_light = sum(to_rgb(text_colour())) < 1.5
    few, many = (0.9, 0.0) if is_light else (0.2, 1.0)
    return ListedColormap(colormaps["viridis"](np.linspace(few, many, 256)))


def shares_on(axis: Any) -> None:
    """Show shares from 0 to 1 as percentages."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{number_text(100 * value)}%"))


def numbers_on(axis: Any, *, whole: bool = False) -> None:
    """Show numbers with thousands separators; ``whole``: mark whole numbers only."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if whole:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
