"""What was sent, passed and refused over time, and who was refused when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import number_text, seconds_text, short_repr
from overlimit.limits.quantities import micros
from overlimit.simulation.events.labels import label_of_each
from overlimit.simulation.figures.above import legend_above, name_above
from overlimit.simulation.figures.style import (
    LABEL_LENGTH,
    OTHERS,
    PASSED,
    REFUSED,
    axes_for,
    colours_of,
    few_to_many,
    font_size,
    identifiers_beside,
    name_text,
    numbers_on,
    policy_text,
    text_colour,
    width_of,
)
from overlimit.simulation.tables import (
    Answers,
    Ints,
    counts_between,
    in_periods,
    labels_of_events,
    most_refused,
    passed_in_time,
    period_bounds,
    refused_of_labels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overlimit.simulation.events.events import Events
    from overlimit.simulation.tables import Every

_MOST_STRETCHES = 120
_WIDTHS: Final = (0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200)
_DAY: Final = 86_400
_UNITS: Final = ((_DAY, "d"), (3600, "h"), (60, "min"), (1, "s"))
_MOST_LABELS: Final = 5
_LINE: Final = 0.8
_PIXELS_OF_A_LINE: Final = 4
_MARK: Final = 1.5


def plot_timeline(
    replay: Answers,
    every: Every | None = None,
    *,
    timezone: str = "UTC",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what was sent, passed and refused over time, and of whom if events have labels.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    every
        In which periods events are counted, as for ``Replay.by_time``; by default in so many seconds that
        there are about 120 periods at most.
    timezone
        In which time zone they are shown.
    title
        What is written above it, by default the limits; an empty text for nothing.
    ax
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: times on one, events in each period on the other. Of the labels five have colours of their
        own, those of which most was refused, the same in every figure of the events; the legend says how many
        events of each were.

    Raises
    ------
    TypeError
        ``replay`` is no Replay.
    InvalidLimit
        There is no such period or time zone.
    ModuleNotFoundError
        matplotlib is missing.
    """
    _check(replay)
    ax = axes_for(ax, "plot_timeline")
    every = width_for(replay.events, _MOST_STRETCHES) if every is None else every
    bounds, sent, passed = in_periods(replay, every, timezone)
    edges = bounds.view("datetime64[us]")
    if len(edges):
        _draw_refused(ax, replay, bounds, sent, passed)
        ax.stairs(passed, edges, fill=True, color=PASSED, label="passed")
        # Thinner than a period is wide, so that it covers none.
        thin = min(_LINE, _LINE * width_of(ax) / len(sent) / _PIXELS_OF_A_LINE)
        ax.stairs(sent, edges, color=text_colour(), linewidth=thin, label="sent")
        ax.set_xlim(edges[0], edges[-1])
        legend_above(ax)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"events per {duration_text(every)}")
    numbers_on(ax.yaxis, whole=True)
    _name(ax, replay, timezone, title)
    return ax


def _check(replay: object) -> None:
    if not isinstance(replay, Answers):
        raise TypeError(
            f"this draws a Replay, as replay(events, limits) returns it, not {short_repr(replay)}"
        )


def _name(ax: Axes, replay: Answers, timezone: str, title: str | None) -> None:
    """Show times in a zone, and above all a title, or the limits."""
    from overlimit.simulation.figures.time_axis import show_times  # which imports matplotlib

    show_times(ax, timezone)
    name_above(ax, title, policy_text(replay.limits, replay.penalty))


def _draw_refused(ax: Axes, replay: Answers, bounds: Ints, sent: Ints, passed: Ints) -> None:
    """Fill what is between all that was sent and what passed, in a colour for each label."""
    of_labels = refused_of_labels(replay)
    if not of_labels:
        _fill(ax, bounds, passed, sent, REFUSED, "refused" if (sent > passed).any() else None)
        return
    top = passed
    for label, colour in _colours_of_most(of_labels).items():
        refused = of_labels.pop(label)
        below, top = top, top + counts_between(bounds, refused)
        text = f"refused: {name_text(label, LABEL_LENGTH)} ({len(refused):,})" if len(refused) else None
        _fill(ax, bounds, below, top, colour, text)
    if others := sum(map(len, of_labels.values())):
        _fill(ax, bounds, top, sent, OTHERS, f"refused: others ({others:,})")


def _fill(ax: Axes, bounds: Ints, below: Ints, top: Ints, colour: str, text: str | None) -> None:
    """Fill what was refused; where that is little, it is as high as a line is thick."""
    edges = bounds.view("datetime64[us]")
    ax.stairs(top, edges, baseline=below, fill=True, color=colour, label=text)
    some = top > below
    ax.hlines(
        top[some], edges[:-1][some], edges[1:][some], color=colour, linewidth=_MARK, capstyle="butt", zorder=3
    )


def _colours_of_most(of_labels: Mapping[str | bytes, Ints]) -> dict[str | bytes, str]:
    """Return the colours of the labels of which most was refused, in the order of all; no colour twice."""
    colours = colours_of(filter(None, of_labels))
    found: dict[str, str | bytes] = {}
    for label in sorted(colours, key=lambda label: -len(of_labels[label])):
        if len(found) < _MOST_LABELS:
            found.setdefault(colours[label], label)
    return {label: colour for label, colour in colours.items() if found.get(colour) == label}


def width_for(events: Events, most: int) -> float:
    """Return the shortest round number of seconds of which at most so many cover the events."""
    seconds = (int(events._times[-1]) - int(events._times[0])) / 1e6 if len(events) else 0.0
    days = -(-seconds // (_DAY * (most - 1)))
    # Stretches begin at round times, so there may be one more.
    return next((width for width in _WIDTHS if seconds <= width * (most - 1)), _DAY * days)


def duration_text(every: Every) -> str:
    """Return a period in the largest unit of which it is a whole number: ``5 min``, ``h`` for one hour."""
    if isinstance(every, str):
        return every
    seconds = micros(every, "every") / 1e6
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return unit if seconds == size else f"{number_text(seconds / size)} {unit}"
    return seconds_text(seconds)


_MOST_COLUMNS = 72
_LEAST_HEIGHT = 3.4
_ROW_HEIGHT = 0.16
_FONT_SIZE = 8.0


def plot_heatmap(
    replay: Answers,
    top: int = 30,
    *,
    timezone: str = "UTC",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how many events of each identifier were refused, and when.

    Parameters
    ----------
    replay
        Events and what limits would have answered.
    top
        How many identifiers at most: those that were refused most, the worst hit on top.
    timezone
        In which time zone times are shown.
    title
        What is written above it, by default the limits; an empty text for nothing.
    ax
        Axes to draw into; by default those of a new figure, which is higher for more than 15 identifiers.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: times on one, identifiers on the other; the colour is the events refused in each stretch of
        time. An event counts for the first identifier that it has; behind an identifier is the label that
        most of its events have.

    Raises
    ------
    ModuleNotFoundError
        matplotlib is missing.
    """
    _check(replay)
    names = [name for name, *_ in most_refused(replay, top)]
    ax = axes_for(ax, "plot_heatmap", max(_LEAST_HEIGHT, 1 + _ROW_HEIGHT * len(names)))
    width = width_for(replay.events, _MOST_COLUMNS)
    bounds = period_bounds(replay.events._times, width, timezone)
    edges = bounds.view("datetime64[us]")
    _name(ax, replay, timezone, title)
    if len(edges):
        ax.set_xlim(edges[0], edges[-1])
    if not names:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "nothing was refused", transform=ax.transAxes, ha="center")
        return ax
    texts = identifiers_beside(ax, names, _labels_of(replay.events))
    ax.set_yticks(range(len(names)), texts, fontsize=font_size(ax, len(names), _FONT_SIZE))
    shown = np.ma.masked_equal(_refused(replay, names, bounds), 0)
    rows = np.arange(len(names) + 1) - 0.5
    mesh = ax.pcolormesh(edges, rows, shown, cmap=few_to_many(), vmin=0)
    bar = ax.figure.colorbar(mesh, ax=ax, label=f"refused per {duration_text(width)}")
    numbers_on(bar.ax.yaxis, whole=True)
    ax.invert_yaxis()
    ax.set_ylabel("identifier")
    return ax


def _labels_of(events: Events) -> dict[object, object]:
    """Return the label of each identifier; empty without labels."""
    if (labels := labels_of_events(events)) is None:
        return {}
    codes, names = events._codes_of()
    return dict(zip(names.tolist(), label_of_each(codes, len(names), labels), strict=True))


def _refused(
    replay: Answers, names: Sequence[object], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the refused events of each name in each period."""
    codes, labels = replay.events._codes_of()
    rows = {name: row for row, name in enumerate(names)}
    row_of = np.array([*(rows.get(label, -1) for label in labels.tolist()), -1])[codes]
    which = ~passed_in_time(replay) & (row_of >= 0)
    places = np.searchsorted(bounds, replay.events._times[which], side="right") - 1
    counts = np.zeros((len(names), len(bounds) - 1), np.int64)
    np.add.at(counts, (row_of[which], places), 1)
    return counts
