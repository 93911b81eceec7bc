"""Figures: each is drawn, and held against one that was looked at (docs/reference/simulation.md)."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from overlimit import Penalty, TokenBucket
from overlimit.simulation import (
    Events,
    compare,
    plot_heatmap,
    plot_level,
    plot_sweep,
    plot_timeline,
    replay,
    sweep,
    traffic,
)

REFERENCES = Path(__file__).parent
TOLERANCE = 12  # root mean square over 0 to 255: texts differ between versions of matplotlib, shapes do not


@pytest.fixture(scope="module")
def mixed():
    return traffic.mix(
        traffic.poisson(2, 1800, 40, label="people", seed=1),
        traffic.bursty(0.5, 1800, 5, burst=30, label="mobile", seed=2),
        traffic.scanner(3, 600, label="scanner", seed=3),
    )


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context({"figure.autolayout": False}):
        mpl.rcdefaults()
        pyplot.switch_backend("agg")
        yield
    pyplot.close("all")


def pixels(source):
    return pyplot.imread(source)[..., :3] * 255


def new_axes():
    return Figure(figsize=(6, 3.4), dpi=100, layout="constrained").subplots()


def check(ax, name):
    """Hold the figure against its reference; a new one is written beside it, to be looked at."""
    drawn = io.BytesIO()
    ax.get_figure().savefig(drawn, format="png")
    path = REFERENCES / f"{name}.png"
    if not path.exists():
        path.write_bytes(drawn.getvalue())
        pytest.fail(f"look at {path}, which did not exist")
    drawn.seek(0)
    found, expected = pixels(drawn), pixels(path)
    assert found.shape == expected.shape
    assert np.sqrt(np.mean((found - expected) ** 2)) < TOLERANCE


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_timeline(mixed):
    answers = replay(mixed, "60/minute")
    ax = new_axes()
    assert plot_timeline(answers, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (UTC)", "events per 30 s")
    assert legend(ax) == ["refused", "passed", "sent"]
    check(ax, "timeline")


@pytest.mark.parametrize(("every", "unit"), [(1, "s"), (60, "min"), (7200, "2 h"), (90, "90 s")])
def test_a_timeline_counts_in_stretches_of_any_width(mixed, every, unit):
    ax = plot_timeline(replay(mixed, "60/minute"), every)
    assert ax.get_ylabel() == f"events per {unit}"
    refused, passed, _ = (stairs.get_data() for stairs in ax.patches)
    assert (refused.values - passed.values).sum() == replay(mixed, "60/minute").refused


def test_levels(mixed):
    limits = ["30/minute", TokenBucket(10, 10, burst=20)]
    ax = new_axes()
    assert plot_level(mixed, limits, "mobile-0", ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (UTC)", "used by mobile-0")
    refused = replay(mixed[mixed.identifiers == "mobile-0"], limits).refused
    assert legend(ax) == ["30 per 1 minute", "10 per 10 seconds burst 20", f"refused ({refused})"]
    check(ax, "level")


def test_a_level_is_that_of_the_limiter():
    ax = plot_level(Events([0, 30, 60, 70], ["a"] * 4), "2/minute", "a")
    line, refusals = ax.lines
    levels = dict(zip(line.get_xdata().tolist(), line.get_ydata(), strict=True))
    by_second = {
        when.timestamp() if hasattr(when, "timestamp") else when: level for when, level in levels.items()
    }
    assert max(by_second.values()) == 1
    assert len(refusals.get_xdata()) == replay(Events([0, 30, 60, 70], ["a"] * 4), "2/minute").refused


def test_levels_under_a_penalty_and_a_limit_of_zero(mixed):
    ax = plot_level(mixed, (["60/minute", "0/minute"], Penalty(30)), "scanner-0")
    assert set(ax.lines[1].get_ydata()) == {1.0}


def test_a_level_of_nobody(mixed):
    with pytest.raises(ValueError, match=r"did you mean 'scanner-0'"):
        plot_level(mixed, "1/second", "scaner-0")


def test_a_sweep(mixed):
    ax = new_axes()
    swept = sweep(mixed, lambda n: f"{n}/minute", [20, 10, 40, 80, 160])
    assert plot_sweep(swept, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("value", "refused")
    assert legend(ax)[:2] == ["events", "identifiers"]
    assert legend(ax)[-1] == "peak in 60 s (right)"
    assert ax.lines[0].get_xdata().tolist() == [10, 20, 40, 80, 160]
    check(ax, "sweep")


def test_a_sweep_over_something_else(mixed):
    with pytest.raises(TypeError, match="plotted over numbers, not '1/second'"):
        sweep(mixed, lambda limit: limit, ["1/second"]).plot()


def test_a_comparison(mixed):
    ax = new_axes()
    policies = {"today": "100/minute", "new": ["20/minute", "200/hour"]}
    assert compare(mixed, policies).plot(ax=ax) is ax
    assert ax.get_xlabel() == "refused"
    assert [text.get_text() for text in ax.get_yticklabels()] == ["today", "new"]
    check(ax, "comparison")


def test_a_heatmap(mixed):
    ax = new_axes()
    assert plot_heatmap(replay(mixed, "10/minute"), top=8, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (UTC)", "identifier")
    assert len(ax.get_yticklabels()) == 8
    assert ax.get_figure().axes[1].get_ylabel() == "refused per 30 s"
    check(ax, "heatmap")


def test_all_refusals_are_in_the_heatmap(mixed):
    answers = replay(mixed, "10/minute")
    assert plot_heatmap(answers, top=1000).collections[0].get_array().sum() == answers.refused


def test_a_heatmap_of_no_refusals(mixed):
    ax = plot_heatmap(replay(mixed, "1000000/minute"))
    assert [text.get_text() for text in ax.texts] == ["nothing was refused"]


@pytest.mark.parametrize("figure", [plot_timeline, plot_heatmap])
def test_figures_of_no_events(figure):
    assert figure(replay(Events([], []), "1/second")).get_xlabel() == "time (UTC)"


def test_names_are_no_formulas():
    events = Events([0, 0, 1, 1], ["$x^{$", "a", "$x^{$", "a"], labels=["$_{$", "b", "$_{$", "b"])
    for ax in (
        plot_heatmap(replay(events, "1/minute")),
        plot_level(events, "1/minute", "$x^{$"),
        plot_sweep(sweep(events, lambda n: f"{n}/minute", [1, 2])),
        compare(events, {"$^{$": "1/minute"}).plot(),
    ):
        ax.get_figure().savefig(io.BytesIO(), format="png")
