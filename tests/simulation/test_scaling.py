"""More traffic of the same kind: more clients, and clients that ask more often."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from overlimit.simulation import Events, replay, traffic

DAY = 86_400


@pytest.fixture(scope="module")
def log():
    people = traffic.diurnal(0.05, 2 * DAY, 40, label="people", seed=1)
    office = traffic.bursty(0.02, 2 * DAY, 3, burst=20, label="office", seed=2)
    return traffic.mix(people, office)


def times_of(events, name):
    return events.times[events.identifiers == name]


def test_three_times_as_many_clients_are_others_like_those_that_there_are(log):
    more = log.scale(3, by="clients")
    assert len(more) == 3 * len(log)
    names = sorted(set(log.identifiers))
    assert sorted(set(more.identifiers)) == sorted(n + end for n in names for end in ("", "#2", "#3"))
    for name in names:
        own, copies = times_of(log, name), [times_of(more, f"{name}#{k}") for k in (2, 3)]
        assert np.array_equal(times_of(more, name), own)
        for copy in copies:
            assert len(copy) == len(own)
            assert np.abs(copy - own).max() <= 31 * 60e6
            assert np.mean(np.diff(copy) == np.diff(own)) < 0.1, "gaps of its own"
        assert not np.array_equal(*copies)
        assert set(more.labels[more.identifiers == f"{name}#2"]) == {name.partition("-")[0]}
    assert np.array_equal(more.times, np.sort(more.times))
    assert more.times[0] == log.times[0]
    assert more.times[-1] == log.times[-1]


def test_bursts_and_the_hours_of_a_day_stay(log):
    copies = log.scale(2, by="clients", seed=4)
    copies = copies[np.char.endswith(copies.identifiers.astype(str), "#2")]
    of_hours = [np.bincount(events.times // 3_600_000_000 % 24, minlength=24) for events in (log, copies)]
    assert np.corrcoef(*of_hours)[0, 1] > 0.9
    bursts = [
        np.median(np.diff(times_of(each, name))) for each, name in ((log, "office-0"), (copies, "office-0#2"))
    ]
    assert 0.5 < bursts[1] / bursts[0] < 2
    for limit in (15, 40):
        shares = [
            replay(each, f"{limit}/minute").by_label().loc["office", "refused"] for each in (log, copies)
        ]
        assert shares[1] == pytest.approx(shares[0], rel=0.25)


def test_a_fraction_of_the_clients_comes_by_chance(log):
    more = [log.scale(2.5, by="clients", seed=seed) for seed in (1, 1, 2)]
    third = [{name for name in each.identifiers if name.endswith("#3")} for each in more]
    assert [len(each) for each in third] == [round(0.5 * 43)] * 3
    assert third[0] == third[1] != third[2]
    assert more[0] == more[1] != more[2]
    assert log.scale(1, by="clients") == log


def test_three_times_as_often_is_more_of_the_same_clients(log):
    more = log.scale(3, by="requests")
    names, counts = np.unique(log.identifiers.astype(str), return_counts=True)
    again, thrice = np.unique(more.identifiers.astype(str), return_counts=True)
    assert again.tolist() == names.tolist()
    assert thrice.tolist() == (3 * counts).tolist()
    assert set(log.times) <= set(more.times), "those that there are stay"
    assert not np.isin(more.times[::2], log.times).all()
    few = log.scale(0.25, by="requests")
    assert len(few) == pytest.approx(len(log) / 4, rel=0.1)
    assert set(few.times) <= set(log.times)


def test_the_two_differ_as_limits_see_them(log):
    refused = {by: replay(log.scale(3, by=by), "40/minute").refused_share for by in ("clients", "requests")}
    assert refused["clients"] < 0.02
    assert refused["requests"] > 10 * refused["clients"]


def test_all_columns_have_new_names_and_costs_follow():
    events = Events(
        [30, 10, 20],
        {"ip": ["a", "b#2", None], "user": [None, b"\xff", "u"]},
        [1, 2, 3],
        labels=["x", "y", None],
    )
    more = events.scale(2, by="clients").to_pandas()
    rows = more[["ip", "user", "cost", "label"]].astype(object).itertuples(index=False, name=None)
    assert sorted(
        (tuple(None if pd.isna(cell) else cell for cell in row) for row in rows),
        key=lambda row: [*map(str, row)],
    ) == [
        (None, "user:u", 3, None),
        (None, "user:u#2", 3, None),
        ("ip:a", None, 1, "x"),
        ("ip:a#3", None, 1, "x"),
        ("ip:b#2", b"user:\xff", 2, "y"),
        ("ip:b#2#3", b"user:\xff#2", 2, "y"),
    ]
    assert len(Events([], []).scale(3, by="clients")) == len(Events([], []).scale(3, by="requests")) == 0


@pytest.mark.parametrize(
    ("factor", "by", "error", "message"),
    [
        (3, "users", ValueError, "by must be 'clients'"),
        ("3", "clients", TypeError, "factor must be a number"),
        (0, "requests", ValueError, "factor must be a number above 0"),
        (0.5, "clients", ValueError, r"events\.sample\(0\.5\)"),
    ],
)
def test_wrong_factors_say_what_to_write(factor, by, error, message):
    with pytest.raises(error, match=message):
        Events([1], ["a"]).scale(factor, by=by)
