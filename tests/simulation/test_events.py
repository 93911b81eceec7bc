"""Events against a model in plain Python, and the sharp corners of their columns."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import InvalidLimit
from overlimit.simulation import Event, Events, read_log

SECONDS = st.integers(0, 20)
VALUES = st.sampled_from(
    ["a", "b", b"a", "ä", "ä".encode(), "a\0", "", None, 7, "7", 7.0, math.nan, pd.NA, "\ud800"]
)
ROWS = st.lists(
    st.tuples(SECONDS, VALUES, VALUES, st.integers(0, 5), st.sampled_from(["x", "y"])), max_size=30
)


def shown(value, name=None):
    """Return an identifier as the model has it."""
    if any(value is missing for missing in (None, pd.NA, math.nan)) or value in {"", b""}:
        return None
    text = value.decode() if isinstance(value, bytes) else str(int(value)) if value == 7 else value
    return text if name is None else f"{name}:{text}"


def modelled(rows):
    """Return the events that rows give."""
    events = []
    for second, ip, user, cost, label in rows:
        identifiers = tuple(each for each in (shown(ip, "ip"), shown(user, "user")) if each is not None)
        if identifiers:
            events.append(Event(float(second), identifiers, cost, label))
    return events


def sorted_by_time(events):
    return sorted(events, key=lambda event: event.time)


def built(rows, **options):
    times, ips, users, costs, labels = zip(*rows, strict=True) if rows else [()] * 5
    columns = {"ip": list(ips), "user": np.array(users, object)}
    return Events(times, columns, list(costs), labels=labels, missing="skip", **options)


@given(ROWS)
def test_events_are_what_the_model_says(rows):
    events, model = built(rows), modelled(rows)
    assert list(events) == [events[k] for k in range(len(model))] == model
    assert [model[k] for k in events.order] == sorted_by_time(model)
    assert events.skipped == len(rows) - len(model)
    assert len(events) == len(model)
    assert events.times.tolist() == [round(event.time * 1e6) for event in model]
    assert events.costs.tolist() == [event.cost for event in model]
    assert events.labels.tolist() == [event.label for event in model]
    assert events.times.dtype == events.costs.dtype == np.int64
    assert_each_identifier_is_held_once(events)


def assert_each_identifier_is_held_once(events):
    for column in events._columns:
        assert column.codes.dtype == np.int32
        assert len(set(column.labels.tolist())) == len(column.labels)
        assert set(column.codes.tolist()) <= {-1, *range(len(column.labels))}


@given(ROWS, st.slices(30), SECONDS, SECONDS)
def test_parts_of_events(rows, part, start, end):
    events, model = built(rows), modelled(rows)
    if part.step is not None and part.step < 0:
        with pytest.raises(ValueError, match="must not go back"):
            events[part]
    else:
        assert list(events[part]) == model[part]
        assert [model[part][k] for k in events[part].order] == sorted_by_time(model[part])
    assert list(events.between(start, end)) == [event for event in model if start <= event.time < end]
    assert list(events.between(end=end)) == [event for event in model if event.time < end]
    assert list(events.between(start)) == [event for event in model if start <= event.time]
    odd = events.costs % 2 == 1
    assert list(events[odd]) == [event for event in model if event.cost % 2 == 1]


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_concatenated_events_are_those_of_all_parts(parts):
    events = Events.concat([built(rows) for rows in parts])
    assert list(events) == sorted_by_time(event for rows in parts for event in sorted_by_time(modelled(rows)))
    assert events.skipped == sum(built(rows).skipped for rows in parts)
    assert_each_identifier_is_held_once(events)


@given(ROWS, st.fractions(0, 1), st.sampled_from(["ip", "user"]), st.integers(0, 3))
def test_a_sample_keeps_whole_identifiers(rows, fraction, by, seed):
    events = built(rows)
    sample = events.sample(float(fraction), by=by, seed=seed)
    of = [next((each for each in event.identifiers if each.startswith(by)), None) for event in events]
    chosen = {each for event in sample for each in event.identifiers if each.startswith(by)}
    assert list(sample) == [event for event, each in zip(events, of, strict=True) if each in chosen]
    present = len({each for each in of if each})
    assert len(chosen) >= min(1, fraction, present)
    assert abs(len(chosen) - Fraction(float(fraction)) * present) <= (
        1 if len(chosen) == 1 else Fraction(1, 2) + Fraction(1, 10**9)
    )
    assert list(sample) == list(events.sample(float(fraction), by=by, seed=seed))


def test_samples_with_other_seeds_differ_and_those_of_the_next_day_do_not():
    names = [f"u{k}" for k in range(1000)]
    events = Events(range(1000), names)
    sample = set(events.sample(0.1).identifiers)
    assert len(sample) == 100
    assert 0 < len(sample & set(events.sample(0.1, seed=1).identifiers)) < 40
    more = Events(range(1100), [*names, *(f"v{k}" for k in range(100))])
    assert len(sample & set(more.sample(0.1).identifiers)) > 70


def test_identifiers_as_decisions_show_them():
    one = Events([2, 1], ["a", 5])
    assert one.identifiers.tolist() == ["a", "5"]
    several = Events([2, 1], {"ip": ["a", None], "user": ["", 1.0]})
    assert {name: column.tolist() for name, column in several.identifiers.items()} == {
        "ip": ["ip:a", None],
        "user": [None, "user:1"],
    }


def test_single_events_and_wrong_choices():
    events = Events([1, 2], ["a", "b"], labels=["x", None])
    assert events[0] == events[-2] == events[np.int64(0)] == Event(1.0, ("a",), 1, "x")
    assert events[1].label is None
    for beyond in (2, -3):
        with pytest.raises(IndexError, match="there are 2 events"):
            events[beyond]
    for wrong in (True, [0, 1], np.array([0, 1]), 1.0):
        with pytest.raises(TypeError, match="a number, a slice, an array of bools or the name of a column"):
            events[wrong]
    with pytest.raises(ValueError, match="no column 'a'"):
        events["a"]
    with pytest.raises(ValueError, match="array of 2 bools"):
        events[np.array([True])]
    with pytest.raises(ValueError, match="fraction must be from 0 to 1"):
        events.sample(1.5)
    with pytest.raises(ValueError, match="no column 'ip'"):
        events.sample(0.5, by="ip")
    with pytest.raises(ValueError, match="at least one"):
        Events.concat([])
    with pytest.raises(ValueError, match="other columns"):
        Events.concat([events, Events([1], {"ip": ["a"]})])
    with pytest.raises(TypeError, match="write cost="):
        Events([1], ["a"], costs=1)


def test_between_takes_what_people_write():
    events = Events([0, 86_400, 100_000], ["a", "b", "c"])
    for start in (86_400, "1970-01-02", "1970-01-02T00:00:00Z", datetime(1970, 1, 2, tzinfo=UTC)):
        assert list(events.between(start).identifiers) == ["b", "c"]
    assert len(events.between(5, 1)) == 0
    with pytest.raises(ValueError, match="from 1970-01-01"):
        events.between(math.nan)


@pytest.mark.parametrize("identifiers", [[], {"ip": []}, {"ip": (), "user": np.array([])}])
def test_no_events(identifiers):
    events = Events([], identifiers)
    assert (len(events), list(events), events.order.tolist()) == (0, [], [])
    assert (
        len(events[:5])
        == len(events.sample(0.5))
        == len(events.between(0, 1))
        == len(events.to_pandas())
        == 0
    )
    assert len(Events.concat([events, events])) == 0
    assert "0 events" in repr(events)
    assert "0 events" in events._repr_html_()


def test_as_a_table():
    table = Events([2.5, 1], {"ip": ["a", "b"], "user": [7, None]}, 3, labels=["x", "y"]).to_pandas()
    assert table.columns.tolist() == ["time", "ip", "user", "cost", "label"]
    assert table["time"].tolist() == [
        pd.Timestamp(2.5, unit="s", tz="UTC"),
        pd.Timestamp(1, unit="s", tz="UTC"),
    ]
    assert table["ip"].tolist() == ["ip:a", "ip:b"]
    assert table["user"].isna().tolist() == [False, True]
    assert table["cost"].tolist() == [3, 3]
    assert table["label"].tolist() == ["x", "y"]
    assert Events([1], ["a"]).to_pandas().columns.tolist() == ["time", "identifier", "cost"]


def test_columns_of_events_give_the_same_events():
    events = Events(
        [2.5, 1, 3], {"ip": ["a", "b", None], "user": [7, b"\xff", "ip:a"]}, [1, 2, 3], labels=["x", "y", "x"]
    )
    table = events.to_pandas()
    for again in (
        Events(events.times, events.identifiers, events.costs, unit="us", labels=events.labels),
        Events(table["time"], table[["ip", "user"]], table["cost"], labels=table["label"]),
        pickle.loads(pickle.dumps(events)),
    ):
        assert again == events
    assert events.identifiers["user"].tolist() == ["user:7", b"user:\xff", "user:ip:a"]
    assert Events([1, 2], {"ip": ["a", "ip:a"]})._columns[0].labels.tolist() == ["ip:a"]
    unnamed = Events([1, 2], ["a", "b"])
    assert Events(unnamed.times, unnamed.identifiers, unit="us") == unnamed
    others = [
        Events([1, 3], ["a", "b"]),
        Events([1, 2], ["a", "c"]),
        Events([1, 2], ["a", "b"], 2),
        unnamed[:1],
    ]
    others += [Events([1, 2], {"ip": ["a", "b"]}), Events([1, 2], ["a", "b"], labels=["x", "y"]), 5]
    assert not any(other == unnamed for other in others)


def test_how_events_look():
    events = Events([0, 60, 60], {"ip": ["<b>", "<b>", "c"], "user": [None, "\ud800", b"\xff"]})
    text = repr(events)
    assert "3 events; 1970-01-01 00:00:00 to 1970-01-01 00:01:00 UTC" in text
    assert "ip: 2 distinct; user: 2 distinct" in text
    page = events._repr_html_()
    assert "ip:&lt;b&gt; (2), ip:c (1)" in page
    assert "<b>" not in page.replace("<b>Events</b>", "")
    page.encode()
    assert "1 skipped" in repr(Events([1, 2], ["a", None], missing="skip"))


def test_equal_costs_take_no_memory():
    events = Events(range(1000), ["a"] * 1000, 5)
    assert events.costs.strides == (0,)
    assert events[::2].costs.tolist() == [5] * 500


def test_days_between_are_those_of_a_zone():
    hours = Events(np.arange(72) * 3600.0 + 1_774_137_600, ["a"] * 72)  # from 2026-03-22T00:00Z
    for day in ("2026-03-23", np.datetime64("2026-03-23"), datetime(2026, 3, 23)):
        found = hours.between(day, "2026-03-24", timezone="Europe/Berlin")
        assert len(found) == 24
        assert found[0].time == 1_774_220_400  # 2026-03-22T23:00Z
    assert hours.between("2026-03-23", "2026-03-24")[0].time == 1_774_224_000
    assert hours.between("2026-03-23T00:00+00:00", timezone="Europe/Berlin")[0].time == 1_774_224_000
    assert len(hours.between("2026-03-29", "2026-03-30", timezone="Europe/Berlin")) == 0
    with pytest.raises(InvalidLimit, match="timezone"):
        hours.between("2026-03-23", timezone="CEST")


def test_the_bad_lines_of_a_log_count_once_however_often_it_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,ip\n1,a\nx,b\n2,b\ny,c\n3,c\n", encoding="utf-8")
    parts = [read_log(path, where=f"ip == '{ip}'") for ip in "abc"]
    parts[0].save(tmp_path / "saved")
    merged = Events.concat([Events.load(tmp_path / "saved"), *parts])
    assert merged.bad_lines.count == 2
    assert [each.line for each in merged.bad_lines] == [3, 5]
    assert list(merged.bad_lines.reasons.values()) == [2]
    # Another log is another, also if it took the place of the first.
    path.write_text("time,ip\n4,a\nz,b\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("time,ip\n4,a\nz,b\n", encoding="utf-8")
    both = Events.concat([*parts, read_log(path), read_log(tmp_path / "b.csv")])
    assert both.bad_lines.count == 4
