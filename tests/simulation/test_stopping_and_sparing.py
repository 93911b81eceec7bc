"""Limits that stop some and spare others: suggestions, sweeps over two numbers, and the best of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit import TokenBucket
from overlimit._messages.texts import percent
from overlimit.simulation import Events, replay, suggest, sweep, traffic

RATES, BURSTS = [2, 5, 10], [1, 4, 9]


@pytest.fixture(scope="module")
def busy():
    events = traffic.mix(
        traffic.bursty(1, 600, ["198.51.100.20", "198.51.100.21"], burst=15, seed=1),
        traffic.scanner(2, 600, ["203.0.113.7"]),
        traffic.poisson(2, 600, 30, label="people", seed=2),
    )
    return events.with_labels(
        {"198.51.100.20": "office", "198.51.100.21": "office", "203.0.113.7": "crawler"}, other="people"
    )


def per_minute(limit):
    return f"{limit}/minute"


def bucket(rate, burst):
    return TokenBucket(rate, per=60, burst=burst)


def of_names(events, names):
    """Return which events have one of some identifiers or labels."""
    return np.isin(events.identifiers.astype(str), names) | np.isin(events.labels.astype(str), names)


def refused_of(events, policy, names):
    """Return the share of the events of identifiers or labels that a policy refuses."""
    return 1 - replay(events, policy).allowed[of_names(events, names)].mean()


@pytest.fixture(scope="module")
def refusals(busy):
    """What each limit from 1 to 60 refuses."""
    return [~replay(busy, per_minute(n)).allowed for n in range(1, 61)]


@pytest.mark.parametrize("spare", ["office", ["198.51.100.20", "people"], "people", ()])
def test_a_suggestion_is_the_smallest_that_refuses_few_and_nothing_of_the_spared(busy, refusals, spare):
    names = [spare] if isinstance(spare, str) else spare
    spared = of_names(busy, names)
    for share in (0, 0.3, 1):
        found = suggest(busy, per_minute, (1, 60), share, "events", spare=spare)
        suffices = [refused.mean() <= share and not refused[spared].any() for refused in refusals]
        assert found.value == (suffices.index(True) + 1 if True in suffices else None)
        assert found.spare == tuple(names)


@pytest.mark.parametrize(
    ("asked", "counted", "whose"),
    [
        ({"stop": "crawler"}, ["office", "people"], "other than those of crawler"),
        ({"among": "people", "stop": ["crawler", "198.51.100.20"]}, ["people"], "of people"),
        ({"among": ["people", "198.51.100.20"]}, ["people", "198.51.100.20"], "of people and 198.51.100.20"),
        ({"among": "mask"}, ["office"], "chosen by among="),
        ({}, ["office", "people", "crawler"], "of all labels"),
    ],
)
def test_a_share_is_of_those_whom_it_is_asked_of(busy, refusals, asked, counted, whose):
    which = of_names(busy, counted)
    if asked.get("among") == "mask":
        asked = {"among": which}
    names = busy.identifiers.astype(str)
    for share in (0, 0.02, 0.1, 0.3):
        for of in ("events", "identifiers"):
            found = suggest(busy, per_minute, (1, 60), share, of, **asked)
            shares = [
                refused[which].mean()
                if of == "events"
                else len({*names[refused & which]}) / len({*names[which]})
                for refused in refusals
            ]
            suffices = [refused <= share for refused in shares]
            assert found.value == (suffices.index(True) + 1 if True in suffices else None)
            assert found.share == pytest.approx(shares[(found.value or 60) - 1])
            assert f"% of the {of} {whose}" in found.message
            stop = [asked["stop"]] if isinstance(asked.get("stop"), str) else asked.get("stop", [])
            expected = {
                name: refusals[(found.value or 60) - 1][of_names(busy, [name])].mean() for name in stop
            }
            assert found.stopped == pytest.approx(expected)


def test_whom_one_wants_to_stop_is_not_among_those_to_be_spared(busy):
    naive, right = suggest(busy, per_minute, (1, 200)), suggest(busy, per_minute, (1, 200), stop="crawler")
    assert naive.value == 1 + max(n for n in range(1, 200) if replay(busy, per_minute(n)).refused)
    others = busy[busy.labels != "crawler"]
    assert right.value == 1 + max(n for n in range(1, 200) if replay(others, per_minute(n)).refused)
    assert right.value < naive.value
    assert right.stopped["crawler"] == pytest.approx(refused_of(busy, per_minute(right.value), ["crawler"]))
    assert 0.3 < right.stopped["crawler"] < 0.9
    assert right.message.endswith(
        f"{right.value} would refuse {percent(right.stopped['crawler'])} of what crawler sends"
    )
    assert right.to_pandas().loc[right.value, "refused_events[crawler]"] == right.stopped["crawler"]
    assert "refused: crawler" in right._repr_html_()


def test_a_suggestion_says_what_else_would_be_refused_of_the_spared(busy):
    found = suggest(busy, per_minute, (1, 100), 1, spare="office")
    table = found.to_pandas()
    smaller = round(
        refused_of(busy, per_minute(found.value - 1), ["office"]) * (busy.labels == "office").sum()
    )
    assert table.loc[found.value - 1, "refused_spared"] == smaller > 0
    assert table.loc[found.value, "refused_spared"] == 0
    assert "at most 100% of the identifiers of all labels, and nothing of office: " in found.message
    assert re.search(
        rf"; {found.value - 1} would refuse [0-9.]+%, and {smaller} events? of office$", found.message
    )
    assert "<th" in (page := found._repr_html_())
    assert "events of office" in page
    assert "refused_spared" not in suggest(busy, per_minute, (1, 100)).to_pandas()
    none = suggest(busy, per_minute, (1, 20), 1, spare=["office", "people"])
    assert none.value is None
    assert none.message.endswith("events of office and people; raise between= or spare fewer")


def test_a_text_with_places_for_the_values_is_a_policy_of_them(busy):
    found = suggest(busy, per_minute, (1, 60), 0.1, "events", stop="crawler")
    same = suggest(busy, "{}/minute", (1, 60), 0.1, "events", stop="crawler")
    assert found == same
    assert hash(found) == hash(same)
    assert found != suggest(busy, "{}/hour", (1, 60), 0.1, "events", stop="crawler")
    assert found != suggest(busy, "{}/minute", (1, 60), 0.1, "events")
    assert list(found.tried) == found.to_pandas().index.tolist()
    assert found.tried[found.value].refused_events == found.share
    assert "refused events of others" in found._repr_html_()
    grid = {"rate": RATES, "burst": BURSTS}
    texts = sweep(busy, "{rate}/minute burst {burst}", grid)
    assert texts.effects == sweep(busy, bucket, grid).effects


def test_a_sweep_over_two_numbers_has_a_row_for_each_pair(busy):
    swept = sweep(busy, bucket, {"rate": np.array(RATES), "burst": BURSTS})
    table = swept.to_pandas()
    assert table.index.names == ["rate", "burst"]
    assert table.index.tolist() == [(rate, burst) for rate in RATES for burst in BURSTS]
    for rate, burst in table.index:
        policy = bucket(rate, burst)
        assert table.loc[(rate, burst), "refused_events"] == replay(busy, policy).refused_share
        office = table.loc[(rate, burst), "refused_events[office]"]
        assert office == pytest.approx(refused_of(busy, policy, ["office"]))
    assert re.search(r"\n  rate +burst +refused events", repr(swept))
    assert re.search(r"\n  10 +9 +\d", repr(swept))
    assert "<th" in swept._repr_html_()
    one = sweep(busy, per_minute, {"limit": RATES}).to_pandas()
    assert (one.index.name, one.index.tolist()) == ("limit", RATES)


@pytest.mark.parametrize(
    ("stop", "spare"), [("crawler", "office"), (["203.0.113.7", "people-3"], ["office", "people"])]
)
def test_the_best_are_those_that_no_other_beats(busy, stop, spare):
    swept = sweep(busy, bucket, {"rate": RATES, "burst": BURSTS})
    names = [[each] if isinstance(each, str) else each for each in (stop, spare)]
    shares = {
        (rate, burst): tuple(refused_of(busy, bucket(rate, burst), each) for each in names)
        for rate in RATES
        for burst in BURSTS
    }
    best = swept.best(stop=stop, spare=spare)
    assert set(best.index) == {
        value
        for value, (stopped, spared) in shares.items()
        if not any(
            more >= stopped and less <= spared and (more, less) != (stopped, spared)
            for more, less in shares.values()
        )
    }
    assert [shares[value][0] for value in best.index] == sorted(
        (shares[v][0] for v in best.index), reverse=True
    )
    for name in names[0] + names[1]:
        expected = [refused_of(busy, bucket(*value), [name]) for value in best.index]
        assert best[f"refused_events[{name}]"].tolist() == pytest.approx(expected)


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


@pytest.mark.check
@settings(max_examples=30)
@given(PAIRS)
def test_equal_ones_are_all_kept(pairs):
    names = [f"{who}{k}" for who in "ab" for k in range(3)]
    events = Events([0] * 6, names, labels=[name[0] for name in names])
    swept = sweep(events, lambda k: "5/minute", range(len(pairs)))
    for k, (stopped, spared) in enumerate(pairs):
        allowed = [j >= stopped for j in range(3)] + [j >= spared for j in range(3)]
        swept._passed[k] = np.packbits(allowed)
    best = swept.best("a", "b").index
    beaten = [
        any(more >= a and less <= b and (more, less) != (a, b) for more, less in pairs) for a, b in pairs
    ]
    assert sorted(best) == [k for k, is_beaten in enumerate(beaten) if not is_beaten]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda e, s: suggest(e, per_minute, (1, 9), spare="offise"), ValueError, "did you mean 'office'"),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), spare=["zz", "office", "qq"]),
            ValueError,
            "spare: 'zz', 'qq' are no identifiers or labels of these events$",
        ),
        (lambda e, s: suggest(e, per_minute, (1, 9), spare=1.5), TypeError, "spare must name"),
        (lambda e, s: suggest(e, per_minute, (1, 9), stop="robot"), ValueError, "stop: 'robot' is no"),
        (lambda e, s: suggest(e, per_minute, (1, 9), among=["robot"]), ValueError, "among: 'robot' is no"),
        (lambda e, s: suggest(e, per_minute, (1, 9), among=None), TypeError, "among must name"),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), stop=["crawler", "office", "people"]),
            ValueError,
            "^stop names everybody",
        ),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), among=e.labels == "x"),
            ValueError,
            "among must choose an event",
        ),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), stop=["crawler", "office"], spare="office"),
            ValueError,
            "^stop and spare both name office",
        ),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), stop="office", among=["people", "office"]),
            ValueError,
            "^stop and among both name office",
        ),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), stop=e.labels == "crawler"),
            TypeError,
            r"stop must name .*, and has bools: .* events\.with_labels\(",
        ),
        (
            lambda e, s: suggest(e, "5/minute", (1, 9)),
            TypeError,
            r'make must .* a text such as "\{\}/minute"',
        ),
        (
            lambda e, s: suggest(e, per_minute, (1, 9), among=e.labels[1:] == "x"),
            ValueError,
            "among has .* rows",
        ),
        (
            lambda e, s: s.best(stop="robot", spare="office"),
            ValueError,
            "stop: 'robot' is no identifier or label",
        ),
        (lambda e, s: s.best(stop="crawler", spare=["x"]), ValueError, "spare: 'x' is no"),
        (lambda e, s: s.best(stop=[], spare="office"), ValueError, "stop must name an identifier or a label"),
        (
            lambda e, s: suggest(Events([1], ["a"]), per_minute, (1, 9), spare="office"),
            ValueError,
            r"which have no labels: events.with_labels\(",
        ),
        (lambda e, s: suggest(e[:1], per_minute, (1, 9), spare="nobody"), ValueError, "'nobody'"),
        (lambda e, s: sweep(e, bucket, {}), ValueError, "grid must not be empty"),
        (lambda e, s: sweep(e, bucket, {"rate": [1], "burst": []}), ValueError, "grid must not be empty"),
        (lambda e, s: sweep(e, bucket, {"rate": 5}), TypeError, "grid must be the values to try"),
        (lambda e, s: sweep(e, bucket, {1: [5]}), TypeError, "grid must name its values by texts"),
    ],
    ids=range(22),
)
def test_wrong_names_and_grids_say_what_to_write(busy, ask, error, message):
    swept = sweep(busy[:50], bucket, {"rate": [1], "burst": [1]})
    with pytest.raises(error, match=message):
        ask(busy, swept)
