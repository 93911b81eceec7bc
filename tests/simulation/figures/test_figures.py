"""Figures: each is drawn, and held against one that was looked at (docs/reference/simulation.md)."""

from __future__ import annotations

import io
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from time import process_time
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from overlimit import LeakyBucket, Limiter, ManualClock, Penalty, SlidingLog, TokenBucket
from overlimit._messages.texts import percent
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
from overlimit.simulation.figures.style import COLOURS

REFERENCES = Path(__file__).parent
TOLERANCE = 12  # root mean square over 0 to 255: texts differ between versions of matplotlib, shapes do not


def pixels(source):
    return pyplot.imread(source)[..., :3] * 255


def new_axes(width=6):
    return Figure(figsize=(width, 3.4), dpi=100, layout="constrained").subplots()


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
    assert legend(ax) == ["refused: scanner (1,200)", "passed", "sent"]
    assert ax.get_title() == "60 per 1 minute"
    check(ax, "timeline")


def test_a_timeline_of_events_without_labels(mixed):
    ax = replay(unlabelled(mixed), "60/minute").plot(title="")
    assert legend(ax) == ["refused", "passed", "sent"]
    assert ax.get_title() == ""
    refused, passed, _ = (stairs.get_data() for stairs in ax.patches)
    assert (refused.values - passed.values).sum() == replay(mixed, "60/minute").refused


def unlabelled(events):
    return Events(events.times, events.identifiers, unit="us")


@pytest.mark.parametrize(("every", "unit"), [(1, "s"), (60, "min"), (7200, "2 h"), (90, "90 s")])
def test_a_timeline_counts_in_stretches_of_any_width(mixed, every, unit):
    ax = plot_timeline(replay(mixed, "60/minute"), every)
    assert ax.get_ylabel() == f"events per {unit}"
    table = replay(mixed, "60/minute").by_label()
    of_labels = [stairs.get_data() for stairs in ax.patches[:3]]
    refused = [(each.values - each.baseline).sum() for each in of_labels]
    assert refused == [table.loc[label, "refused"] for label in ("people", "mobile", "scanner")]


def test_levels(busy):
    policy = (["20/minute", "100/10 minutes"], Penalty(60))
    ax = new_axes()
    assert plot_level(busy, policy, "ip:203.0.113.7", ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (UTC)", "used by ip:203.0.113.7")
    refused = replay(busy[busy.identifiers == "ip:203.0.113.7"], policy).refused
    assert refused > 100
    assert legend(ax) == ["20 per 1 minute", "100 per 10 minutes", "locked", f"refused ({refused})"]
    check(ax, "level")


def drawn_levels(ax, limits):
    """Return the level of each limit that is drawn at each time in us: the last one, after the event."""
    levels = [
        dict(zip(line.get_xdata().astype(np.int64).tolist(), line.get_ydata().tolist(), strict=True))
        for line in ax.lines[:limits]
    ]
    return lambda time: [of_limit[time] for of_limit in levels]


@pytest.mark.parametrize("penalty", [None, Penalty([20, 60])], ids=["no penalty", "penalty"])
@pytest.mark.parametrize(
    "limits",
    [
        ["20/minute", "100/10 minutes"],
        [TokenBucket(10, 60, burst=15), SlidingLog(20, 45)],
        [LeakyBucket(12, 60, capacity=8)],
    ],
    ids=lambda limits: type(limits[0]).__name__,
)
def test_levels_are_what_a_limiter_has_left_at_each_event(busy, limits, penalty):
    name = "ip:203.0.113.7"
    ax = plot_level(busy, (limits, penalty), name)
    drawn = drawn_levels(ax, len(limits))
    clock = ManualClock()
    limiter = Limiter(limits, penalty=penalty, clock=clock)
    most = [limit.quota for limit in limiter.limits]
    refusals, after = [], {}
    for time in busy.times[busy.identifiers == name].tolist():
        clock.set(time / 1e6)
        decision = limiter.hit(name)
        left = limiter.peek(name, cost=0).details if penalty else decision.details
        after[time] = [1 - each.remaining / each_most for each, each_most in zip(left, most, strict=True)]
        refusals += [] if decision else [time]
    assert 10 < len(refusals) < len(after)
    assert {time: drawn(time) for time in after} == {time: pytest.approx(after[time]) for time in after}
    assert ax.lines[-1].get_xdata().astype(np.int64).tolist() == refusals


def test_levels_of_very_many_events_are_shown_at_as_many_instants_as_a_figure_has():
    events = Events(np.arange(30_000) / 10, ["a"] * 30_000)
    ax = plot_level(events, "300/minute", "a")
    assert len(ax.lines[0].get_xdata()) <= 2 * 10_000
    assert len(ax.lines[-1].get_xdata()) == replay(events, "300/minute").refused
    limiter = Limiter("300/minute", clock=(clock := ManualClock()))
    drawn = ax.lines[0]
    levels = dict(zip(drawn.get_xdata().astype(np.int64).tolist(), drawn.get_ydata().tolist(), strict=True))
    for time in events.times[:5000].tolist():
        clock.set(time / 1e6)
        before, _, after = limiter.peek("a", cost=0), limiter.hit("a"), limiter.peek("a", cost=0)
        if time in levels:
            used = [1 - each.remaining / 300 for each in (before, after)]
            assert min(abs(levels[time] - each) for each in used) < 1e-9


def test_the_shade_is_where_a_lock_is():
    ax = plot_level(Events([0, 1, 2, 100], ["a"] * 4), ("2/minute", Penalty(30)), "a")
    (shade,) = ax.collections
    days = np.concatenate([path.vertices[:, 0] for path in shade.get_paths()])
    assert days.min() * 86_400 == pytest.approx(2, abs=0.5)
    assert days.max() * 86_400 == pytest.approx(32, abs=0.5)


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
    assert ax.get_title() == "10 per 1 minute to 160 per 1 minute"
    check(ax, "sweep")


def test_a_sweep_over_something_else(mixed):
    with pytest.raises(TypeError, match="plotted over numbers, not '1/second'"):
        sweep(mixed, lambda limit: limit, ["1/second"]).plot()
    grid = {name: [1] for name in "abc"}
    with pytest.raises(TypeError, match="plotted over one or two numbers, not 3"):
        sweep(mixed, lambda a, b, c: "1/second", grid).plot()


def test_a_sweep_over_two_numbers(mixed):
    ax = new_axes()
    grid = {"rate": [40, 10, 20], "burst": [1, 1000]}
    swept = sweep(mixed, lambda rate, burst: TokenBucket(rate, 60, burst=burst), grid)
    assert swept.plot(ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rate", "burst")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["10", "20", "40"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "1,000"]
    assert ax.get_title() == "10 per 1 minute burst 1 to 40 per 1 minute burst 1000"
    shares = swept.to_pandas()["refused_events"].unstack("rate").sort_index().to_numpy()
    assert ax.collections[0].get_array().tolist() == shares.tolist()
    assert [text.get_text() for text in ax.texts] == [percent(share) for share in shares.ravel()]
    check(ax, "map")


def test_a_map_of_one_label(mixed):
    grid = {"rate": [10, 40], "burst": [5, 50]}
    swept = sweep(mixed, lambda rate, burst: TokenBucket(rate, 60, burst=burst), grid)
    ax = swept.plot(label="scanner", ax=new_axes())
    table = swept.to_pandas()["refused_events[scanner]"].unstack("rate")
    (mesh,) = [each for each in ax.collections if hasattr(each, "get_coordinates")]
    assert mesh.get_array().tolist() == table.to_numpy().tolist()
    assert ax.figure.axes[-1].get_ylabel() == "refused of scanner"
    with pytest.raises(ValueError, match="label must be one of the events, not 'scaner'; there are 'people'"):
        swept.plot(label="scaner")
    with pytest.raises(ValueError, match="for sweeps over two numbers"):
        sweep(mixed, "{}/minute".format, [10, 20]).plot(label="scanner")
    unlabelled = mixed.with_labels({}, other=None)
    with pytest.raises(ValueError, match="none, until"):
        sweep(unlabelled, lambda rate, burst: f"{rate}/minute", grid).plot(label="x")


@pytest.mark.check
def test_levels_of_millions_of_events_take_seconds():
    events = Events(np.arange(1_000_000) / 1000, np.repeat(["a"], 1_000_000))
    started = process_time()
    ax = plot_level(events, ["300/minute", "10/second"], "a")
    assert process_time() - started < 5
    assert len(ax.lines[-1].get_xdata()) == replay(events, ["300/minute", "10/second"]).refused


def test_a_map_of_many_values_has_no_texts_that_touch(mixed):
    grid = {"rate": range(1, 30), "burst": ["a", "b"]}
    ax = sweep(mixed[:100], lambda rate, burst: f"{rate}/minute", grid).plot(ax=new_axes(4))
    ax.get_figure().draw_without_rendering()
    assert not ax.texts
    ticks = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert len(ticks) > 3
    assert all(left.x1 < right.x0 for left, right in pairwise(ticks))


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
    assert ax.get_title() == "10 per 1 minute"
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert len(names) == 8
    assert names[0] == "scanner-0 (scanner)"
    assert ax.get_figure().axes[1].get_ylabel() == "refused per 30 s"
    check(ax, "heatmap")


def test_all_refusals_are_in_the_heatmap(mixed):
    answers = replay(mixed, "10/minute")
    assert plot_heatmap(answers, top=1000).collections[0].get_array().sum() == answers.refused


def test_a_heatmap_of_no_refusals(mixed):
    ax = plot_heatmap(replay(mixed, "1000000/minute"))
    assert [text.get_text() for text in ax.texts] == ["nothing was refused"]
    assert_times_are_told(ax)
    assert ax.xaxis.get_offset_text().get_text() == "2026-Jan-01"


@pytest.mark.parametrize("figure", [plot_timeline, plot_heatmap])
def test_figures_of_no_events_and_of_one(figure):
    for times in ([], [1_772_409_600.25]):
        ax = figure(replay(Events(times, ["a"] * len(times)), "1/second"))
        ax.get_figure().draw_without_rendering()
        assert ax.get_xlabel() == "time (UTC)"
        assert ("2026-Mar-02" in ax.xaxis.get_offset_text().get_text()) == bool(times)


NOON = 1_772_452_800  # of 2 March 2026, UTC
DAY = 86_400
SPANS = [
    *(1, 4.7, 10, 30, 150, 180, 282, 600, 3600, 9_000, 3 * 3600, DAY, 3 * DAY, 20 * DAY, 90 * DAY),
    *(365 * DAY, 600 * DAY, 5 * 365 * DAY, 10 * 365 * DAY),
]


def assert_times_are_told(ax):
    ax.get_figure().draw_without_rendering()
    ticks = ax.get_xticks()
    assert len(ticks) >= 2
    assert ax.get_xlim()[0] <= ticks[0] < ticks[-1] <= ax.get_xlim()[1]
    labels = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(labels))
    assert ax.xaxis.label.get_window_extent().x1 < ax.xaxis.get_offset_text().get_window_extent().x0


@pytest.mark.parametrize(("span", "width"), [(span, (4, 6, 10)[k % 3]) for k, span in enumerate(SPANS)])
def test_a_span_of_time_has_two_times_at_least(span, width):
    answers = replay(Events([NOON, NOON + span], ["a", "b"]), "1/second")
    assert_times_are_told(plot_timeline(answers, ax=new_axes(width)))


@pytest.mark.prove
@pytest.mark.parametrize(
    ("start", "zone"),
    [
        *((NOON, "UTC"), (NOON - DAY / 2, "Europe/Berlin"), (1_774_744_200.7, "Europe/Berlin")),
        (1_798_700_000, "Australia/Lord_Howe"),
    ],
)
@pytest.mark.parametrize("width", [4, 6, 10])
@pytest.mark.parametrize("span", SPANS)
def test_every_span_has_two_times_at_least_in_every_figure(span, width, start, zone):
    events = Events([start, start, start + span], ["a"] * 3)
    answers = replay(events, "1/second")
    assert_times_are_told(plot_timeline(answers, timezone=zone, ax=new_axes(width)))
    assert_times_are_told(plot_heatmap(answers, timezone=zone, ax=new_axes(width)))
    assert_times_are_told(plot_level(events, "1/second", "a", timezone=zone, ax=new_axes(width)))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_the_figure_of_a_day_has_its_date_and_times_of_its_zone(zone):
    midnight = datetime(2026, 3, 2, tzinfo=ZoneInfo(zone)).timestamp()
    events = Events(midnight + np.arange(0, DAY, 600), ["a"] * 144)
    for ax in (
        plot_timeline(replay(events, "1/hour"), 3600, timezone=zone),
        plot_heatmap(replay(events, "1/day"), timezone=zone),
        plot_level(events, "1/hour", "a", timezone=zone),
    ):
        ax.get_figure().draw_without_rendering()
        assert ax.xaxis.get_offset_text().get_text() == "2026-Mar-02"
        assert ax.get_xlabel() == f"time ({zone})"
        labels = [text.get_text() for text in ax.get_xticklabels()]
        assert labels[:2] in (["00:00", "06:00"], ["00:00", "12:00"])
        assert not [label for label in labels if "Mar" in label]


def test_days_months_and_years_are_told_apart():
    def labels(*days):
        ax = plot_timeline(replay(Events([NOON + day * DAY for day in days], ["a"] * len(days)), "1/day"))
        ax.get_figure().draw_without_rendering()
        return [text.get_text() for text in ax.get_xticklabels()], ax.xaxis.get_offset_text().get_text()

    assert labels(0, 1) == (["12:00", "18:00", "Mar-03", "06:00", "12:00"], "from 2026-Mar-02")
    assert labels(0, 45) == (["08", "15", "22", "Apr", "08", "15"], "from 2026-Mar")
    assert labels(0, 20)[1] == "2026-Mar"
    assert labels(0, 400) == (["Apr", "Jul", "Oct", "2027", "Apr"], "from 2026")
    assert labels(305, 306)[0] == ["2027", "06:00", "12:00"] or "2027" in labels(304, 305)[0]
    assert labels(0, 4000)[0][:2] == ["2028", "2030"]


def test_a_timeline_of_calendar_days_has_the_hours_that_they_have():
    start = datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    events = Events(start + np.arange(0, 3 * DAY, 900), ["a"] * 288)
    ax = plot_timeline(replay(events, "1/hour"), "day", timezone="Europe/Berlin")
    assert ax.get_ylabel() == "events per day"
    assert np.rint(np.diff(ax.patches[-1].get_data().edges) * 24).tolist() == [24, 23, 24, 24]
    assert ax.patches[-1].get_data().values.tolist() == [96, 92, 96, 4]


HOSTILE = {
    "formula": "$x^{$ and \\$5",
    "lines": "line\nbreak\ttab",
    "control": "\x00\x1b[31m\x07",
    "override": "\u202eright to left",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u0649",
    "long": "x" * 10_000,
    "long and wide": "\u65e5\u672c" * 5_000,
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "surrogate": "\ud800",
    "bytes": b"\xff\xfe",
    "hidden": "_nolegend_",
}


@pytest.fixture(scope="module")
def hostile():
    names = list(HOSTILE.values())
    return Events(np.repeat(np.arange(60), len(names)), names * 60, labels=names * 60)


@pytest.mark.check
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_name_raises_warns_or_takes_the_place_of_the_figure(hostile, kind):
    """The names are those of identifiers, labels, limits and policies."""
    name, limits = HOSTILE[kind], ["9/minute", TokenBucket(1, 60, name="n" * 64)]
    draws = [
        lambda ax: plot_level(hostile, limits, name, ax=ax),
        lambda ax: compare(hostile, {str(name): "9/minute", "new": "20/minute"}).plot(ax=ax),
    ]
    if kind == "long and wide":
        draws.append(lambda ax: plot_heatmap(replay(hostile, "9/minute"), ax=ax))
        draws.append(lambda ax: plot_sweep(sweep(hostile, lambda n: f"{n}/minute", [9, 20]), ax=ax))
    for draw in draws:
        ax = new_axes(4)
        draw(ax)
        ax.get_figure().draw_without_rendering()
        drawn = ax.get_window_extent()
        assert drawn.width > 140
        assert drawn.height > 100
        extents = [ax.get_legend().get_window_extent()] if ax.get_legend() else []
        extents += [text.get_window_extent() for text in ax.get_yticklabels()]
        assert all(-1 <= each.x0 and each.x1 <= 401 for each in extents)


def test_names_are_shown_as_they_are_as_far_as_they_can_be(hostile):
    answers = replay(unlabelled(hostile), "9/minute")
    names = [text.get_text() for text in plot_heatmap(answers).get_yticklabels()]
    assert names == [
        r"\$x^{\$ and \\$5",
        r"line\nbreak\ttab",
        r"\x00\x1b[31m\x07",
        r"\u202eright to left",
        HOSTILE["right to left"],
        "xxxxxxxxxxxxx\u2026xxxxxxxxxxxx",
        r"\u65e5\u672c\…\u65e5\u672c",
        "\U0001f600 \\U0001f468\\…0d\\U0001f467",
        r"\ud800",
        r"\xff\xfe",
        "_nolegend_",
    ]


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("$^{$", 6, r"\$^{\$"),
        ("sliding window counter", 6, "sliding window counter"),
        ("sliding window counter", 4, "sliding window\ncounter"),
        ("x" * 99, 2, "xxxxxxxxx\nxxxx…xxxx\nxxxxxxxxx"),
        ("today's limit of the gateway (v2)", 6, "today's limit of the gateway (v2)"),
    ],
)
def test_a_policy_name_is_shown_as_it_is_and_cut_only_where_there_is_no_room(mixed, name, width, shown):
    ax = new_axes(width)
    compare(mixed, {name: "1/minute"}).plot(ax=ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == [shown]


def test_policies_whose_names_differ_in_the_middle_are_told_apart_in_narrow_figures(mixed):
    names = [f"policy number {k} of the team" for k in range(8)]
    ax = new_axes(4)
    compare(mixed, dict.fromkeys(names, "1/minute")).plot(ax=ax)
    ax.get_figure().draw_without_rendering()
    texts = ax.get_yticklabels()
    assert [text.get_text().replace("\n", " ") for text in texts] == names
    assert_apart(texts)
    assert min(text.get_window_extent().x0 for text in texts) >= 0


def labelled(count):
    return traffic.mix(*(traffic.poisson(1, 60, label=f"kind {k}", seed=k) for k in range(count)))


@pytest.mark.parametrize(
    ("labels", "said"), [(6, []), (7, ["1 more label not shown"]), (9, ["3 more labels not shown"])]
)
def test_labels_are_shown_as_far_as_there_are_colours_and_others_are_counted(labels, said):
    events = labelled(labels)
    swept = sweep(events, lambda n: f"{n}/minute", [1, 2]).plot()
    compared = compare(events, {"a": "1/minute"}).plot()
    shown = ["events", "identifiers", *(f"of kind {k}" for k in range(6))]
    assert legend(swept) == [*shown, "peak in 60 s (right)", *said]
    assert legend(compared) == [*shown, *said]
    colours = {line.get_color() for line in swept.lines if len(line.get_xdata())}
    assert len(colours) == 8
    assert not colours & {line.get_color() for line in swept.get_figure().axes[1].lines}
    assert len({bar.get_facecolor() for bar in compared.patches}) == 8


def test_a_label_has_the_same_colour_in_every_figure_of_a_few(mixed):
    answers, compared = replay(mixed, "10/minute"), compare(mixed, {"a": "10/minute"})
    timeline, bars = plot_timeline(answers), compared.plot()
    of_labels = [patch.get_facecolor() for patch in timeline.patches[:3]]
    assert of_labels == [patch.get_facecolor() for patch in bars.patches[2:]]
    assert timeline.patches[3].get_facecolor() not in of_labels


def test_a_label_has_its_colour_whatever_is_refused_and_grey_is_for_others():
    events = labelled(9)
    colours = {}
    for limit in ("4/minute", "6/minute", "40/minute"):
        ax = plot_timeline(replay(events, limit))
        for patch, text in zip(ax.patches, legend(ax), strict=False):
            if text.startswith("refused: kind"):
                colours.setdefault(text[9:15], set()).add(patch.get_facecolor())
    bars = compare(events, {"a": "4/minute"}).plot()
    for k, bar in enumerate(bars.patches[2:]):
        colours.setdefault(f"kind {k}", set()).add(bar.get_facecolor())
    assert len(colours) >= 6
    assert {len(each) for each in colours.values()} == {1}
    assert len(set().union(*colours.values())) == len(colours)
    assert to_rgba("#808080") not in set().union(*colours.values())


def test_small_shares_are_seen_and_nothing_of_which_there_is_none_is_named():
    events = Events(np.arange(3000.0), [f"{k}" for k in range(2997)] + ["2996"] * 3)
    for figure, colour in (
        (replay(events, "3/minute").plot(every=300).figure, "#D55E00"),
        (compare(events, {"a": "3/minute"}).plot().figure, COLOURS[4]),
    ):
        figure.canvas.draw()
        seen = np.asarray(figure.canvas.buffer_rgba())[..., :3] == np.rint(
            np.array(to_rgba(colour)[:3]) * 255
        )
        assert seen.all(axis=2).sum() > 20
    assert legend(replay(events, "9/minute").plot()) == ["passed", "sent"]
    # In a map the smallest share has a colour, and nothing at all has none.
    grid = {"rate": [3, 9], "burst": [0, 1]}
    ax = sweep(events, lambda rate, burst: f"{rate + burst}/minute", grid).plot()
    assert ax.collections[0].get_array().mask.tolist() == [[False, True], [True, True]]
    assert [text.get_text() for text in ax.texts] == ["0.033%", "0.00%", "0.00%", "0.00%"]


def test_a_timeline_of_many_labels_shows_those_that_are_refused_most():
    events = labelled(8).with_labels(lambda name: "" if name.startswith("kind 0") else name[:6])
    answers = replay(events, "4/minute")
    table = answers.by_label()
    shown = [text for text in legend(plot_timeline(answers)) if text.startswith("refused")]
    counts = {label: f"({count:,})" for label, count in table["refused"].items()}
    worst = sorted(label for label in table.index if label)
    worst = sorted(sorted(worst, key=lambda label: -table.loc[label, "refused"])[:5])
    assert shown[:-1] == [f"refused: {label} {counts[label]}" for label in worst]
    rest = table["refused"].sum() - table.loc[worst, "refused"].sum()
    assert shown[-1] == f"refused: others ({rest})"


def test_numbers_have_thousands_separators():
    events = Events(np.repeat([0, 60], 5000), ["a"] * 10_000)
    answers = replay(events, "3000/minute")
    ax = plot_timeline(answers, 7e6)
    heat = plot_heatmap(answers).get_figure().axes[1]
    swept = sweep(events, "{}/minute".format, [1000, 3000]).plot()
    compared = [ax, heat, *swept.get_figure().axes]
    for each in compared:
        each.get_figure().draw_without_rendering()
        texts = [text.get_text() for text in each.get_yticklabels()]
        assert any("," in text for text in texts) or texts[0] == "0%"
        assert not any(text.strip("%").isdigit() and len(text) > 4 for text in texts)
    assert ax.get_ylabel() == "events per 7,000,000 s"
    assert "2,000" in [text.get_text() for text in swept.get_xticklabels()]


def assert_apart(texts):
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) > 1
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))


def test_thirty_rows_of_a_heatmap_are_legible(mixed):
    answers, given = replay(mixed, "3/minute"), new_axes()
    for ax in (plot_heatmap(answers), plot_heatmap(answers, ax=given)):
        ax.get_figure().draw_without_rendering()
        assert_apart(ax.get_yticklabels())
        if ax is not given:
            assert len(ax.get_yticklabels()) == 30
            assert ax.get_yticklabels()[0].get_fontsize() == 8
            assert ax.get_figure().get_size_inches()[0] == 6


def test_hundreds_of_rows_can_be_drawn():
    events = Events([0] * 400, [f"client-{k // 2}" for k in range(400)])
    ax = plot_heatmap(replay(events, "1/minute"), top=500)
    ax.get_figure().draw_without_rendering()
    assert len(ax.get_yticks()) == 200
    assert ax.get_figure().get_size_inches().tolist() == [6, 20]


def test_percentages_of_bars_do_not_touch():
    events = labelled(8)
    policies = {f"policy {k}": f"{k + 1}/minute" for k in range(5)}
    own = compare(events, policies).plot()
    own.get_figure().draw_without_rendering()
    assert len(own.texts) == 40
    assert_apart(own.texts)
    assert not compare(events, policies).plot(ax=new_axes(4)).texts


def test_lines_are_seen_on_a_dark_background(mixed):
    with pyplot.style.context("dark_background"):
        ax = plot_timeline(replay(mixed, "60/minute"))
        assert ax.patches[-1].get_edgecolor() == (1, 1, 1, 1)
        assert plot_heatmap(replay(mixed, "10/minute")).collections[0].get_cmap()(0)[2] > 0.4
