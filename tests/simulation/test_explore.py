"""The panel says what a replay says, whatever is set on it (docs/reference/simulation.md)."""

from __future__ import annotations

import html
import io
import re

import ipywidgets
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import overlimit
from overlimit import FixedWindow, InvalidLimit, Limiter, SlidingLog, SlidingWindow, TokenBucket
from overlimit.limits.registry import ALGORITHMS
from overlimit.simulation import Events, Panel, compare, explore, plot_timeline, replay, traffic
from overlimit.simulation.panel import live_sample, sample_text

HOSTILE = '<script>alert("1")</script>\x1b[31m\u202e'


@pytest.fixture(scope="module")
def mixed():
    return traffic.mix(
        traffic.poisson(2, 1800, 40, label="people", seed=1),
        traffic.bursty(0.5, 1800, 5, burst=30, label="mobile", seed=2),
        traffic.scanner(3, 600, label="scanner", seed=3),
    )


def texts(source):
    return html.unescape(re.sub(r"<[^>]*>", "|", source))


def cells(panel):
    """Return who is hit most, what they sent, what passed and what was refused."""
    body = panel.refused.value.partition("<tbody>")[2]
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    return [[cell for cell in texts(row).split("|") if cell] for row in rows]


def shown_timeline(panel):
    return pyplot.imread(io.BytesIO(panel.timeline.value))


def drawn_timeline(answers, zone="UTC"):
    drawn = io.BytesIO()
    plot_timeline(answers, timezone=zone).get_figure().savefig(drawn, format="png")
    pyplot.close("all")
    return pyplot.imread(io.BytesIO(drawn.getvalue()))


def test_times_are_those_of_a_zone(mixed):
    panel = explore(mixed, timezone="Asia/Kathmandu")
    answers = replay(mixed, panel.policy)
    assert np.array_equal(shown_timeline(panel), drawn_timeline(answers, "Asia/Kathmandu"))
    with pytest.raises(InvalidLimit, match="timezone must be a name"):
        explore(mixed, timezone="Asia/Katmandoo")


def assert_shows(panel, limit, events):
    answers = replay(events, limit)
    effect = compare(events, {"it": limit}).effects["it"]
    distinct = len(np.unique(events.identifiers))
    assert (
        f"{effect.refused_events:.2%} of {len(events):,} events, "
        f"{effect.refused_identifiers:.2%} of {distinct:,} identifiers"
    ) in texts(panel.refused.value)
    worst = answers.by_identifier(top=5)
    worst = worst[worst["refused"] > 0]
    assert cells(panel) == [
        [name, *(f"{number:,}" for number in row)]
        for name, row in zip(worst.index, worst[["sent", "passed", "refused"]].to_numpy(), strict=True)
    ]
    assert np.array_equal(shown_timeline(panel), drawn_timeline(answers))
    assert panel.timeline.layout.display is None
    assert panel.policy == limit
    line = texts(panel.line.value).strip("|")
    assert eval(line, vars(overlimit) | {"Limiter": Limiter}).limits == (limit,)


def test_each_control_changes_what_is_shown(mixed):
    panel = explore(mixed)
    assert isinstance(panel, Panel)
    assert_shows(panel, SlidingWindow(panel.limit.value, 60), mixed)
    panel.limit.value = 7
    assert_shows(panel, SlidingWindow(7, 60), mixed)
    panel.period.value = 3600
    assert_shows(panel, SlidingWindow(7, 3600), mixed)
    panel.algorithm.value = "fixed_window"
    assert_shows(panel, FixedWindow(7, 3600), mixed)
    panel.algorithm.value = "token_bucket"
    panel.burst.value = 3
    assert_shows(panel, TokenBucket(7, 3600, burst=3), mixed)
    panel.burst.value = 30
    assert_shows(panel, TokenBucket(7, 3600, burst=30), mixed)


def test_all_algorithms_can_be_set_and_those_with_a_burst_have_it(mixed):
    panel = explore(mixed[:100])
    with_burst = set()
    for _, name in panel.algorithm.options:
        panel.algorithm.value = name
        assert panel.policy.algorithm == name
        if not panel.burst.disabled:
            with_burst.add(name)
    assert {name for _, name in panel.algorithm.options} == set(ALGORITHMS)
    assert with_burst == {"token_bucket", "leaky_bucket"}
    periods = [value for _, value in panel.period.options]
    assert (periods[0], periods[-1]) == (1, 86_400)
    assert periods == sorted(periods)
    assert ("30 seconds", 30) in panel.period.options


def test_sliders_end_where_nothing_is_refused_any_more(mixed):
    panel = explore(mixed)
    for period in (1, 60, 86_400):
        panel.period.value = period
        panel.limit.value = panel.limit.max
        assert "0.00% of" in texts(panel.refused.value)
    assert panel.limit.max == 1800  # all that the scanner sent
    panel.period.value = 60
    assert panel.limit.value == 1800  # what was set stays


def test_what_was_asked_before_is_not_asked_again(mixed):
    panel = explore(mixed)
    first = panel.timeline.value
    panel.limit.value += 1
    assert panel.timeline.value != first
    panel.limit.value -= 1
    assert panel.timeline.value == first
    assert panel._effects.of.cache_info().misses == 2
    asked = panel._effects.of.cache_info().misses
    panel.burst.value = 4  # a sliding window has none
    assert panel._effects.of.cache_info().misses == asked


def test_a_limit_that_cannot_be_is_an_error_on_the_panel():
    events = Events(np.arange(10_001) / 1000, ["a"] * 10_001)
    panel = explore(events)
    panel.algorithm.value = "sliding_log"
    panel.limit.value = 10_001
    with pytest.raises(InvalidLimit) as error:
        _ = panel.policy
    assert "10000" in str(error.value)
    assert texts(panel.refused.value) == f"|{error.value}|"
    assert 'role="alert"' in panel.refused.value
    assert (panel.line.value, panel.timeline.layout.display) == ("", "none")
    panel.limit.value = 10_000
    assert_shows(panel, SlidingLog(10_000, 60), events)


def test_an_identifier_is_a_text():
    panel = explore(Events(range(9), [HOSTILE] * 8 + [b"\xff"]))
    panel.limit.value = 1
    assert "<script" not in panel.refused.value
    assert panel.refused.value.isprintable()
    assert cells(panel)[0] == [r'<script>alert("1")</script>\x1b[31m\u202e', "8", "1", "7"]


def test_a_sample_has_those_who_send_most_and_others():
    events = traffic.mix(
        traffic.poisson(2, 1000, 500, label="people"),
        traffic.scanner(3, 1000, 2, label="scanner"),
    )
    sample = live_sample(events, 4000)
    senders = pd.Series(events.identifiers).value_counts()
    assert {"scanner-0", "scanner-1"} <= set(sample.identifiers)
    assert 3500 < len(sample) <= 4000
    assert len(set(sample.identifiers)) > 50
    own = pd.Series(sample.identifiers).value_counts()
    assert (own == senders[own.index]).all(), "all events of each"
    assert f"A sample: {len(sample):,} of {len(events):,} events, of " in sample_text(events, sample)


def test_who_sends_more_than_a_sample_is_asked_about_by_the_first_events():
    events = Events(np.arange(2000), {"ip": ["a", "a", "a", "b"] * 500})
    sample = live_sample(events, 1000)
    assert sample.times.tolist() == events[events.identifiers["ip"] == "ip:a"].times[:1000].tolist()
    assert "1,000 of 2,000 events, of 1 of 2 identifiers (ip)" in sample_text(events, sample)


def test_all_of_a_million_events_are_asked_about():
    events = Events(np.arange(1_200_000), np.arange(1_200_000) % 2000)
    assert len(live_sample(events)) == len(events)


def test_events_given_in_any_order_and_with_several_identifiers():
    times = np.random.default_rng(1).permutation(500) / 10
    events = Events(times, {"ip": [f"{k % 3}" for k in range(500)], "user": ["u", None] * 250})
    panel = explore(events)
    panel.limit.value, panel.period.value = 20, 10
    refused = replay(events, SlidingWindow(20, 10)).refused_share
    assert 0 < refused < 1
    assert f"{refused:.2%} of 500 events" in texts(panel.refused.value)


@pytest.mark.parametrize("cost", [0, 2**53 - 1])
def test_events_of_any_cost(cost):
    panel = explore(Events([0, 1, 2], ["a"] * 3, cost))
    panel.limit.value = panel.limit.max
    assert panel.limit.value <= 2**53 - 1
    assert "of 3 events" in texts(panel.refused.value)


def test_what_are_no_events():
    with pytest.raises(TypeError, match="events must be Events"):
        explore([1, 2])


def test_it_is_a_widget_for_other_widgets_that_leaves_no_figures_of_pyplot(mixed):
    before = pyplot.get_fignums()
    panel = explore(mixed)
    assert pyplot.get_fignums() == before
    assert ipywidgets.HBox([panel.widget]).children == (panel.widget,)
    assert "application/vnd.jupyter.widget-view+json" in panel._repr_mimebundle_()
    assert repr(panel) == f"<Panel for {mixed!r}>"
    assert panel.widget.children[5].value == "", "few events are asked about as they are"
    assert len(panel.sample) == len(mixed)
