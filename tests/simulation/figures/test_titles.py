"""Titles and legends: they have room, whatever figure they are in and whenever a title is set."""

from __future__ import annotations

import io
from itertools import combinations, pairwise

import pytest
from matplotlib import pyplot

from overlimit import Penalty, TokenBucket
from overlimit.simulation import compare, plot_heatmap, plot_level, plot_sweep, plot_timeline, replay, sweep

from .test_figures import new_axes

pytestmark = pytest.mark.check


def bucket(rate, burst):
    return TokenBucket(rate, 60, burst=burst)


def figures_of(mixed, busy):
    """Return functions that draw each figure."""
    policy = (["20/minute", "100/10 minutes"], Penalty(60))
    return (
        lambda ax: plot_timeline(replay(mixed, "60/minute"), ax=ax),
        lambda ax: plot_heatmap(replay(mixed, "10/minute"), ax=ax),
        lambda ax: plot_level(busy, policy, "ip:203.0.113.7", ax=ax),
        lambda ax: plot_sweep(sweep(mixed, lambda n: f"{n}/minute", [10, 20, 40]), ax=ax),
        lambda ax: compare(mixed, {"today": "100/minute", "new": "20/minute"}).plot(ax=ax),
        lambda ax: sweep(mixed, bucket, {"rate": [5, 10], "burst": [5, 90, 1500]}).plot(ax=ax),
    )


@pytest.mark.parametrize(("width", "title"), [(4, "after"), (6, "before"), (4, "default"), (6, "default")])
def test_titles_legends_and_labels_fit_into_figures_and_do_not_overlap(mixed, busy, width, title):
    for draw in figures_of(mixed, busy):
        ax = new_axes(width)
        if title == "before":
            ax.set_title("A title of one's own")
        draw(ax)
        if title == "after":
            ax.set_title("A title of one's own")
        assert title == "default" or ax.get_title() == "A title of one's own"
        ax.get_figure().draw_without_rendering()
        ticks = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text()]
        assert all(left.x1 < right.x0 for left, right in pairwise(ticks))
        assert all(bar.get_window_extent().x1 <= ax.get_window_extent().x1 for bar in ax.texts)
        others = [ax.title, ax.get_legend(), ax.xaxis.label, ax.yaxis.label, ax.xaxis.get_offset_text()]
        drawn = ax.get_window_extent()
        boxes = [each.get_window_extent() for each in others if each]
        boxes += [box for box in ticks if drawn.x0 <= (box.x0 + box.x1) / 2 <= drawn.x1]
        boxes = [box for box in boxes if box.width]
        assert all(-1 <= box.x0 and box.x1 <= width * 100 + 1 and box.y1 <= 341 for box in boxes)
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_tight", [False, True])
def test_titles_and_legends_have_room_in_figures_without_a_layout_too(mixed, busy, is_tight):
    for draw in figures_of(mixed, busy):
        figure, ax = pyplot.subplots()
        draw(ax)
        ax.set_title("A title of one's own")
        if is_tight:
            figure.tight_layout()
        figure.savefig(io.BytesIO(), bbox_inches="tight")
        figure.draw_without_rendering()
        title = ax.title.get_window_extent()
        assert title.y1 <= figure.bbox.height
        below = ax.get_legend() or ax
        assert below.get_window_extent().y1 <= title.y0
        right = [each for each in figure.axes if each.get_ylabel() == "most cost in 60 s"]
        assert all(each.get_position().bounds == ax.get_position().bounds for each in right)


@pytest.mark.parametrize("place", ["left", "center", "right"])
def test_a_title_of_ones_own_is_the_only_one(mixed, place):
    before, after = new_axes(), new_axes()
    before.set_title("own", loc=place)
    for ax in (before, after):
        plot_timeline(replay(mixed, "60/minute"), ax=ax)
    after.set_title("own", loc=place)
    for ax in (before, after):
        assert sorted(map(ax.get_title, ("left", "center", "right"))) == ["", "", "own"]


def test_a_title_is_where_it_is_without_a_legend_once_that_is_gone(mixed):
    ax = plot_timeline(replay(mixed, "60/minute"), ax=new_axes())
    ax.set_title("title")
    ax.get_legend().remove()
    ax.get_figure().draw_without_rendering()
    assert ax.title.get_window_extent().y0 < ax.get_window_extent().y1 + 10
