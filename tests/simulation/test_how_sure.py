"""How sure an answer is: bootstraps of suggestions, and backtests."""

from __future__ import annotations

import numpy as np
import pytest

from overlimit.simulation import Events, backtest, compare, replay, suggest, traffic
from overlimit.simulation.questions.resampling import draws_of

DAY = 86_400


def sending(counts, label=None):
    """Return events of as many identifiers, each of which sends so much at once."""
    return Events(np.zeros(sum(counts)), np.repeat([f"c{k}" for k in range(len(counts))], counts))


def drawn(events, weights):
    """Return the events in which each identifier is there so many times, under names of its own."""
    parts = []
    for name, weight in weights.items():
        own = events[events.identifiers == name]
        for copy in range(weight):
            labels = None if own.labels is None else own.labels.tolist()
            parts.append(
                Events(own.times, [f"{name}/{copy}"] * len(own), own.costs, unit="us", labels=labels)
            )
    return Events.concat(parts)


@pytest.mark.parametrize("of", ["identifiers", "events"])
@pytest.mark.parametrize("asked", [{}, {"stop": "crawler"}, {"among": "people"}])
def test_a_band_is_that_of_suggestions_for_the_same_draws(of, asked):
    events = traffic.mix(
        traffic.bursty(0.6, 900, 12, burst=6, label="people", seed=3),
        traffic.scanner(0.5, 900, 2, label="crawler", seed=4),
    )
    found = suggest(events, "{}/minute", (1, 60), 0.2, of, **asked, resample=25, seed=7)
    counted = events.labels != "crawler" if asked else np.ones(len(events), bool)
    names = list(dict.fromkeys([*events._columns[0].labels.tolist()]))
    sent = np.array([np.sum(counted & (events.identifiers == name)) for name in names])
    answers = []
    for weights in draws_of(sent, 25, 7):
        part = drawn(events, {name: int(w) for name, w in zip(names, weights, strict=True)})
        answer = suggest(part, "{}/minute", (1, 60), 0.2, of).value
        answers.append(60 if answer is None else answer)
    ordered = sorted(answers)
    assert (found.low, found.high) == (ordered[1], ordered[23])
    assert found.low <= found.value <= found.high
    assert found.low < found.high, "a band of no width would be sure of everything"
    assert f"{found.value} (between {found.low} and {found.high}) is the smallest" in found.message


def test_bands_contain_the_right_answer_as_often_as_they_say():
    random = np.random.default_rng(0)
    right = int(np.ceil(np.log(0.1) / np.log(0.9)))  # the smallest n with 0.9 ** n <= 0.1
    inside = 0
    for run in range(40):
        found = suggest(
            sending(random.geometric(0.1, 300)), "{}/minute", (1, 200), 0.1, resample=60, seed=run
        )
        inside += found.low <= right <= found.high
        assert found.high - found.low < 20
    assert 32 <= inside <= 40, "nine tenths of them, but for chance"


def test_what_is_spared_is_so_in_every_draw_and_no_answer_is_the_largest_value():
    events = sending([1, 1, 1, 30])
    spared = suggest(events, "{}/minute", (1, 40), 1, spare="c3", resample=50)
    assert (spared.low, spared.high) == (30, 30)
    none = suggest(events, "{}/minute", (1, 20), 0.001, resample=50)
    assert (none.value, none.low, none.high) == (None, 1, 20)
    assert suggest(events, "{}/minute", (1, 20)).low is None
    for wrong, error in ((0, ValueError), ("often", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match="resample must be how often to draw"):
            suggest(events, "{}/minute", (1, 20), resample=wrong)


def test_shares_of_policies_have_a_band_around_them():
    events = sending(np.random.default_rng(1).geometric(0.1, 400))
    table = compare(events, {"low": "5/minute", "high": "1000/minute"}).resample(100)
    share = replay(events, "5/minute").refused_share
    assert table.loc["low", ("refused_events", "low")] < share < table.loc["low", ("refused_events", "high")]
    assert table.loc["high"].tolist() == [0, 0, 0, 0]
    low, high = table.loc["low", "refused_identifiers"]
    assert 0.05 < high - low < 0.12, "about 3.3 standard deviations of a share of 400"


@pytest.mark.parametrize("of", ["identifiers", "events"])
def test_a_backtest_fits_on_what_was_before_and_tries_each_day(of):
    start = 1_774_652_400  # 2026-03-28 00:00 in Berlin, whose next day has 23 hours
    events = traffic.mix(
        traffic.bursty(0.002, 4 * DAY, 30, burst=8, label="people", start=start, seed=5),
        traffic.scanner(0.01, 4 * DAY, label="crawler", start=start),
    )
    found = backtest(
        events, "{}/minute", (1, 50), 0.1, of, stop="crawler", timezone="Europe/Berlin", by="day"
    )
    table = found.to_pandas()
    days = ["2026-03-29", "2026-03-30", "2026-03-31"]
    assert [f"{time:%Y-%m-%d %H}" for time in table.index[:3]] == [f"{day} 00" for day in days]
    for time, row in table.iterrows():
        until = time + np.timedelta64(23 if time.day == 29 else 24, "h")
        before, day = events.between(None, time), events.between(time, until)
        value = suggest(before, "{}/minute", (1, 50), 0.1, of, stop="crawler").value
        people = day.labels == "people"
        refused = ~replay(day, f"{value}/minute").allowed[people]
        names = day.identifiers[people]
        share = refused.mean() if of == "events" else len({*names[refused]}) / len({*names})
        tried = len(names) if of == "events" else len({*names})
        assert (row["value"], row["share"], row["tried"]) == (value, pytest.approx(share), tried)
    assert found.kept == (table["share"] <= 0.1).sum()
    assert f"in {found.kept} of {len(table)} periods at most 10% of the {of}" in repr(found)
    for text in (repr(found), found._repr_html_()):
        assert "2026-03-29 00:00" in text
    assert found.plot().get_xlabel() == "time (Europe/Berlin)"


def test_a_backtest_finds_a_day_that_was_worse_than_all_before():
    counts = {1: 3, 2: 3, 3: 9}
    times = [day * DAY + k for day, count in counts.items() for k in range(count)]
    table = backtest(Events(times, ["a"] * len(times)), "{}/minute", (1, 20), 0).to_pandas()
    assert table["value"].tolist() == [3, 3]
    assert table["share"].tolist() == [0, 1]
    no_answer = backtest(Events(times, ["a"] * len(times)), "{}/minute", (1, 2), 0).to_pandas()
    assert no_answer["value"].isna().all()
    assert no_answer["share"].tolist() == [1, 1], "the largest is tried then"
    with pytest.raises(ValueError, match="all events are of one period"):
        backtest(Events([1, 2], ["a", "b"]), "{}/minute", (1, 20))


def test_a_suggestion_is_drawn_with_its_bound_and_its_band():
    found = suggest(sending([3, 4, 5, 9, 40]), "{}/minute", (1, 90), 0.2, resample=50)
    ax = found.plot()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"at most", str(found.value), f"{found.low} to {found.high}"} < set(texts)
    assert found.plot(ax=ax, title="Who?") is ax
    assert ax.get_title() == "Who?"
