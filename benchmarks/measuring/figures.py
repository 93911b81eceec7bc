"""Figures of what was measured, as SVG that is the same for the same figures: curves, and bars of factors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from measuring.turns import Record
from overlimit.simulation.figures.style import COLOURS

GREY = "#808080"  # which is seen on light and on dark pages
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, *_ = COLOURS
OURS = (BLUE, SKY, GREEN)
OTHERS = (ORANGE, PINK, VERMILION)
STYLE: dict[Any, Any] = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": GREY,
    "axes.titlesize": "medium",
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.color": GREY,
    "svg.fonttype": "none",
    "svg.hashsalt": "overlimit",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
WIDTH = 8.0


def file_names(part: str, records: Sequence[Record]) -> dict[str, str]:
    """Return the names of a part's figures, each with its title."""
    names = {f"{part}.svg": f"Factors of the part {part}"} if bars_of(records) else {}
    curves = dict.fromkeys(record.title for record in records if record.axis)
    return names | {f"{part}-{slug(title)}.svg": title for title in curves}


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def bars_of(records: Sequence[Record]) -> list[list[Record]]:
    """Return the contests of a part that are no curves."""
    groups = itertools.groupby((each for each in records if not each.axis), lambda each: each.title)
    return [list(group) for _, group in groups]


def write_figures(folder: Path, part: str, records: Sequence[Record]) -> None:
    """Write the figures of a part."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        for name, title in file_names(part, records).items():
            of_title = [each for each in records if each.axis and each.title == title]
            figure = figure_of_curves(title, of_title) if of_title else figure_of_bars(bars_of(records))
            figure.savefig(folder / name, metadata={"Date": None}, transparent=True)


def figure_of_bars(contests: Sequence[Sequence[Record]]) -> Figure:
    """Return a bar for each contestant: how many times the first of its contest it is."""
    heights = [len(contest) + 1.6 for contest in contests]
    figure = Figure(figsize=(WIDTH, 0.24 * sum(heights) + 0.3), layout="constrained")
    rows = figure.subplots(len(contests), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    ratios = [record.ratio for contest in contests for record in contest]
    for axes, contest in zip(rows, contests, strict=True):
        draw_bars(axes, contest, min(ratios) / 1.3, max(ratios) * 1.5)
    return figure


def draw_bars(axes: Axes, contest: Sequence[Record], lowest: float, highest: float) -> None:
    ratios = [record.ratio for record in contest]
    axes.barh(
        range(len(contest)),
        [ratio - lowest for ratio in ratios],
        left=lowest,
        color=[colour_of_bar(contest, record) for record in contest],
        height=0.7,
    )
    for place, record in enumerate(contest):
        value = f"{record.ratio:,.0f}" if record.ratio >= 100 else f"{record.ratio:.3g}"
        axes.annotate(f"x{value}", (record.ratio, place), (3, 0), textcoords="offset points", va="center")
    axes.set_xscale("log")
    axes.set_xlim(lowest, highest)
    axes.set_yticks(range(len(contest)), [record.name for record in contest])
    axes.invert_yaxis()
    axes.tick_params(left=False)
    axes.xaxis.set_major_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines["bottom"].set_visible(False)
    axes.set_title(f"{contest[0].title}: times the first{better(contest[0].unit)}", loc="left")


def colour_of_bar(contest: Sequence[Record], record: Record) -> str:
    """Return grey for the floor, and a colour each for this project and for others."""
    if record is contest[0] or record.name.startswith("d[k]"):
        return GREY
    return BLUE if is_ours(record.name) or not any(is_ours(each.name) for each in contest) else ORANGE


def is_ours(name: str) -> bool:
    return name.startswith("overlimit")


def better(unit: str) -> str:
    """Return which way is better, if there is one."""
    return {"ns": ", less is faster", "us": ", less is faster", "cores": ""}.get(unit, ", more is faster")


def figure_of_curves(title: str, records: Sequence[Record]) -> Figure:
    """Return a curve for each contestant, with its name at its end."""
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    ends = []
    for name, colour in colours_of_curves(list(dict.fromkeys(record.name for record in records))).items():
        points = sorted((each.x or 0, each.median) for each in records if each.name == name)
        axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3.5)
        ends.append((points[-1], name, colour))
    scale(axes, sorted({each.x for each in records if each.x}))
    axes.set_xlabel(records[0].axis)
    axes.set_title(f"{title} ({records[0].unit})", loc="left")
    label_ends(axes, ends)
    return figure


def colours_of_curves(names: Sequence[str]) -> dict[str, str]:
    """Return grey for the floor, and colours of their own for what is ours and for the rest."""
    ours, others = iter(OURS), iter(OTHERS)
    floor = [name for name in names[:1] if not is_ours(name)]
    return {name: GREY if name in floor else next(ours if is_ours(name) else others) for name in names}


def scale(axes: Axes, places: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(places, [short(x) for x in places])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y")


def label_ends(axes: Axes, ends: list[tuple[tuple[int, float], str, str]]) -> None:
    """Write each name behind the end of its curve, as far from the others as it takes to read it."""
    axes.get_figure().draw_without_rendering()  # type: ignore[union-attr]  # they have one
    transform: Any = axes.transData
    last = float("-inf")
    for (x, y), name, colour in sorted(ends, key=lambda end: end[0][1]):
        place = transform.transform((x, y))[1] * 72 / axes.get_figure().dpi  # type: ignore[union-attr]
        shown = max(place, last + 10)
        last = shown
        axes.annotate(name, (x, y), (6, shown - place), textcoords="offset points", va="center", color=colour)


def short(value: float) -> str:
    """Write a number in few characters."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if value >= size and value % size == 0:
            return f"{value / size:g}{letter}"
    return f"{value:,g}"
