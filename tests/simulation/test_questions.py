"""Questions about limits: what policies would have done to the same events."""

from __future__ import annotations

import bisect
import random
import re

import numpy as np
import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit._messages.texts import number_text, percent
from overlimit.simulation import (
    Events,
    compare,
    error_of,
    explore,
    plot_heatmap,
    plot_timeline,
    read_log,
    replay,
    suggest,
    sweep,
    traffic,
)
from overlimit.simulation.tables import peak, peak_of_any

SECOND = 1_000_000


@pytest.fixture
def mixed():
    return traffic.mix(
        traffic.poisson(20, 600, 30, label="people", seed=1),
        traffic.scanner(10, 600, 2, label="scanner", seed=2),
    )


def per_minute(limit):
    return f"{limit}/minute"


def test_policies_are_compared_in_figures_that_replays_have(mixed):
    policies = {
        "today": "100/minute",
        "locks": ("100/minute", Penalty(30)),
        "limiter": Limiter(SlidingLog(50, 60), penalty=Penalty(5)),
    }
    comparison = compare(mixed, policies)
    table = comparison.to_pandas()
    assert table.index.name == "policy"
    assert table.columns.tolist() == [
        "refused_events",
        "refused_identifiers",
        "worst_hit",
        "peak_1s",
        "peak_60s",
        "refused_events[people]",
        "refused_identifiers[people]",
        "refused_events[scanner]",
        "refused_identifiers[scanner]",
    ]
    for name, policy in policies.items():
        answers = replay(mixed, policy)
        row, people = table.loc[name], answers.by_identifier(top=None)
        assert row["refused_events"] == answers.refused_share
        assert row["refused_identifiers"] == (people["refused"] > 0).mean()
        assert row["worst_hit"][0] == people.index[0]
        assert len(row["worst_hit"]) == min(3, (people["refused"] > 0).sum())
        by_label = answers.to_pandas().groupby("label", observed=True)["allowed"].mean()
        assert row["refused_events[people]"] == pytest.approx(1 - by_label["people"])
        hit = [
            set(mixed.identifiers[which & (mixed.labels == "scanner")]) for which in (~answers.allowed, True)
        ]
        assert row["refused_identifiers[scanner]"] == len(hit[0]) / len(hit[1]) == 1
        passed = mixed.times[answers.allowed].tolist()
        assert row["peak_60s"] == max(
            bisect.bisect_left(passed, t + 60 * SECOND) - k for k, t in enumerate(passed)
        )


def test_agreement_counts_what_both_refuse_and_only_one():
    events = Events([0, 1, 2, 70, 71], ["a"] * 5)
    comparison = compare(events, {"two": "2/minute", "one": "1/minute", "locks": ("2/minute", Penalty(90))})
    assert comparison.agreement.to_dict("records") == [
        {"a": "two", "b": "one", "both": 1, "only_a": 0, "only_b": 2},
        {"a": "two", "b": "locks", "both": 1, "only_a": 0, "only_b": 2},
        {"a": "one", "b": "locks", "both": 2, "only_a": 1, "only_b": 1},
    ]
    text = repr(comparison)
    assert re.search(r"\n  two +20.00% +100.00% +1 +2  a\n", text)
    assert "two and one: both refuse 1, only two 0, only one 2" in text
    more = compare(events, {str(limit): f"{limit}/minute" for limit in (1, 2, 3, 4)})
    assert repr(more).splitlines()[-1] == "  6 pairs of policies: see .agreement"
    assert (len(more.agreement), "Agreement" in more._repr_html_()) == (6, False)
    assert "Agreement" in comparison._repr_html_()


def test_a_sweep_has_a_row_per_value_and_the_share_of_each_label(mixed):
    table = sweep(mixed, per_minute, np.array([50, 100, 400])).to_pandas()
    assert table.index.tolist() == [50, 100, 400]
    assert table.index.name == "value"
    assert table["refused_events"].is_monotonic_decreasing
    assert table["refused_events[people]"].tolist()[1:] == [0, 0]
    assert table.loc[100, "refused_events[scanner]"] == pytest.approx(1 - 100 / 300, abs=0.01)
    assert table.loc[400].tolist()[:3] == [0.0, 0.0, ()]


def test_a_suggestion_is_the_smallest_that_suffices_and_knows_its_neighbour(mixed):
    for of, share in (("events", 0.05), ("identifiers", 0.07), ("events", 0), ("identifiers", 0.001)):
        suggestion = suggest(mixed, per_minute, (1, 1000), share, of)
        every = sweep(mixed, per_minute, range(suggestion.value - 3, suggestion.value + 2)).to_pandas()
        shares = every[f"refused_{of}"]
        assert suggestion.share == shares[suggestion.value] <= share
        assert suggestion.next_smaller == shares[suggestion.value - 1] > share
        assert str(suggestion.value) in repr(suggestion)
        assert len(suggestion.to_pandas()) <= 11


def test_a_suggestion_says_when_nothing_suffices_and_when_nothing_smaller_was_tried(mixed):
    none = suggest(mixed, per_minute, (1, 20), 0.001)
    assert (none.value, none.next_smaller, none.share) == (None, None, 1.0)
    assert "even 20 refuses 100.00%" in none.message
    assert none.message.endswith("; raise between= or refuse_at_most=")
    upside_down = suggest(mixed, lambda seconds: f"30/{seconds} seconds", (1, 500), 0.2, "events")
    assert upside_down.value is None
    assert "1 refuses less (" in upside_down.message
    assert suggest(mixed, per_minute, (5, 5)).value is None
    lowest = suggest(mixed, per_minute, (500, 1000))
    assert (lowest.value, lowest.share, lowest.next_smaller) == (500, 0.0, None)
    assert "nothing below 500 was tried" in lowest.message


def test_the_error_of_a_cheaper_rule_is_that_of_two_replays(mixed):
    for cheap in (SlidingWindowCounter(100, 60), SlidingWindow(100, 60, precision=20), FixedWindow(100, 60)):
        error = error_of(mixed, cheap)
        passed, right = replay(mixed, cheap).allowed, replay(mixed, SlidingLog(100, 60)).allowed
        assert error.wrongly_passed == (passed & ~right).sum()
        assert error.wrongly_refused == (right & ~passed).sum()
        assert error.reference == (SlidingLog(100, 60),)
    assert error.worst_overshoot > 0, "twice the limit around the boundary of a window"
    assert error.to_pandas()["worst_overshoot"].tolist() == [error.worst_overshoot]
    assert f"{error.wrongly_passed:,} wrongly passed" in repr(error)
    assert f"; worst overshoot {error.worst_overshoot}" in repr(error)


def test_what_a_rule_lets_pass_that_never_overshoots_is_not_wrong(mixed):
    error = error_of(mixed, SlidingWindow(100, 60, precision=20))
    assert error.wrongly_passed > error.worst_overshoot == 0
    for text in (repr(error), error._repr_html_()):
        assert "passed where the exact log refuses" in text
        assert "no period held too many" in text
        assert "wrongly passed" not in text
    by_hand = repr(error_of(mixed, "100/minute", ["1000/minute", SlidingWindow(400, 60)]))
    assert "passed where the reference refuses" in by_hand


def test_an_overshoot_is_that_of_one_identifier_in_a_period_that_is_open_at_its_beginning():
    events = Events([59, 59, 60, 60, 119, 119], {"ip": list("aaaaaa"), "user": [None, None, *"bbbb"]})
    limit = FixedWindow(2, 60, start="epoch")
    assert error_of(events, limit).worst_overshoot == 2
    apart = Events([0, 0, 60, 60], ["a"] * 4)
    assert error_of(apart, limit).worst_overshoot == 0


def test_what_has_no_exact_log_needs_a_reference(mixed):
    for limit in (TokenBucket(5), SlidingWindow(10_001, 60), FixedWindow(100, "day", start="calendar")):
        with pytest.raises(ValueError, match="reference="):
            error_of(mixed, limit)
    error = error_of(mixed, TokenBucket(5, burst=100), SlidingLog(400, 60))
    assert error.worst_overshoot == 0
    assert error_of(mixed, "100/minute", TokenBucket(5)).worst_overshoot is None


NONE = Events([], [])
ASKED_OF_NONE = [
    lambda events: compare(NONE, {"a": "1/minute"}),
    lambda events: sweep(NONE, per_minute, [1]),
    lambda events: suggest(NONE, per_minute, (1, 9)),
    lambda events: error_of(NONE, "1/minute"),
    lambda events: explore(NONE),
]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda events: compare(events, {}), ValueError, "policies must not be empty"),
        (lambda events: compare(events, ["1/minute"]), TypeError, "must be a dict"),
        (lambda events: compare([1], {"a": "1/minute"}), TypeError, "must be Events"),
        (lambda events: sweep(events, per_minute, []), ValueError, "grid must not be empty"),
        (lambda events: sweep(events, per_minute, 5), TypeError, "grid must be the values to try"),
        (lambda events: events.between("noon"), ValueError, "in ISO 8601, as 2026-03-02T12:00"),
        (plot_timeline, TypeError, "this draws a Replay"),
        (plot_heatmap, TypeError, "this draws a Replay"),
        (lambda events: sweep(events, "1/minute", [1]), TypeError, "make must be a function"),
        (lambda events: suggest(events, per_minute, (5, 1)), ValueError, "between must be"),
        (lambda events: suggest(events, per_minute, 5), TypeError, "between must be"),
        (lambda events: suggest(events, per_minute, (1, 5), 2), ValueError, "refuse_at_most"),
        (
            lambda events: suggest(events, per_minute, (1, 5), of="all"),
            ValueError,
            '"identifiers" or "events"',
        ),
        (lambda events: error_of(None, "1/minute"), TypeError, "must be Events"),
        *((ask, ValueError, "events must not be empty") for ask in ASKED_OF_NONE),
        (lambda events: read_log(5), TypeError, "path must be a file such as 'access.log'"),
        (lambda events: events.sample("half"), TypeError, "fraction must be a number from 0 to 1"),
        (Events.concat, TypeError, "takes a list of Events"),
        (lambda events: Events.concat([events, 5]), TypeError, "takes a list of Events"),
        (
            lambda events: replay(events, "1/s").by_identifier(top=-1),
            ValueError,
            "top must be a whole number",
        ),
        (
            lambda events: replay(events, "1/s").by_identifier(top="a"),
            TypeError,
            "top must be a whole number",
        ),
        (lambda events: plot_heatmap(replay(events, "1/s"), "a"), TypeError, "top must be a whole number"),
    ],
    ids=range(26),
)
def test_a_wrong_question_says_what_to_write(ask, error, message):
    with pytest.raises(error, match=message):
        ask(Events([0], ["a"]))


def test_a_text_has_a_value_wherever_it_says_so():
    events = Events(np.arange(30.0), ["a", "b", "c"] * 10)
    found = suggest(events, "{}/minute; {}/2 minutes", (1, 50))
    assert (found.value, suggest(events, "{0}/minute; {}/2 minutes", (1, 50)).value) == (10, 10)
    assert sweep(events, "{rate}/minute; {rate}/hour", {"rate": [9, 10]}).to_pandas()[
        "refused_events"
    ].tolist() == [0.1, 0]
    for make, values, told in (("{1}/minute", [1], "{}"), ("{rat}/minute", {"rate": [1]}, "{rate}")):
        with pytest.raises(
            ValueError, match=re.escape(f"make must have {told} where the value goes, not '{make}'")
        ):
            sweep(events, make, values)


def test_texts_that_utf_8_cannot_write_are_in_tables_as_they_are():
    events = Events([1, 2, 3], {"ip": ["\ud800", "a", "\ud800"]}, labels=["\ud801", "b", "b"])
    answers = replay(events, "1/minute")
    assert answers.by_identifier().index.tolist() == ["ip:\ud800", "ip:a"]
    assert answers.to_pandas()["ip"].tolist() == ["ip:\ud800", "ip:a", "ip:\ud800"]
    assert answers.to_pandas()["binding_identifier"].tolist() == ["ip:\ud800", "ip:a", "ip:\ud800"]
    assert events.to_pandas()["label"].tolist() == ["\ud801", "b", "b"]
    plot_heatmap(answers)
    for found in (compare(events, {"a": "1/minute"}), sweep(events, per_minute, [1])):
        assert r"ip:\ud800" in repr(found)
        assert repr(found).encode()
        assert found.to_pandas() is not None


@pytest.mark.parametrize(
    ("share", "bound", "text"),
    [
        *((0, 0, "0.00%"), (1, 0, "100.00%"), (1 / 3, 0, "33.33%"), (0.0005, 0, "0.05%")),
        *((0.000015, 0, "0.0015%"), (0.000126, 0, "0.013%"), (0.99999, 0, "99.999%")),
        *((0.0001, 0.0001, "0.01%"), (0.0001006, 0.0001, "0.01006%"), (0.00009996, 0.0001, "0.009996%")),
        *((1 / 888, 0.001, "0.11%"), (0.3, 0.3, "30.00%")),
    ],
)
def test_a_share_has_the_digits_that_tell_it_from_all_and_nothing_and_what_was_asked_for(share, bound, text):
    assert percent(share, bound) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *(
            (0, "0"),
            (3226.5, "3,226.5"),
            (1_209_600, "1,209,600"),
            (-12_345.678, "-12,345.7"),
            (1e9, "1,000,000,000"),
        ),
        *((0.1, "0.1"), (2 / 3, "0.666667"), (0.000001, "0.000001"), (61.2, "61.2"), (1e-9, "0")),
    ],
)
def test_numbers_have_separators_and_no_powers_of_ten(number, text):
    assert number_text(number) == text


def test_a_suggestion_tells_shares_from_the_bound():
    names = [f"c{k}" for k in range(9_940)]
    events = Events(np.r_[np.zeros(9_940), 1], [*names, "c0"])
    message = suggest(events, "{}/minute".format, (1, 5), 0.0001).message
    assert message.startswith("2 is the smallest value that refuses at most 0.01% of the identifiers: 0.00%")
    assert message.endswith("; 1 would refuse 0.01006%")


def test_peaks_are_the_largest_sums_of_any_interval():
    random_ = random.Random(5)
    for _ in range(200):
        count, period = random_.randint(1, 40), random_.randint(1, 30)
        times = np.sort(np.array([random_.randint(0, 60) for _ in range(count)]))
        cost = np.array([random_.randint(0, 5) for _ in range(count)])
        codes = np.array([random_.randint(0, 3) for _ in range(count)], np.int32)
        sums = [
            [cost[(codes == code) & (times >= t) & (times < t + period)].sum() for t in times]
            for code in range(4)
        ]
        assert peak_of_any(codes, times, cost, period) == np.max(sums)
        assert peak(times, cost, period) == np.sum(sums, axis=0).max()


def test_peaks_do_not_overflow_for_many_identifiers_over_a_long_time():
    codes = np.repeat(np.arange(50_000, dtype=np.int32), 2)
    times = np.sort(np.random.default_rng(3).integers(0, 2**53 - 2**50, len(codes)))
    order = np.random.default_rng(4).permutation(len(codes))
    assert peak_of_any(codes[order], times, np.ones(len(codes), int), 1) == 1
    assert peak_of_any(codes[order], times, np.ones(len(codes), int), 2**49) == 2
    assert peak(np.arange(3000), np.full(3000, 2**52), 5000) == 3000 * 2**52
