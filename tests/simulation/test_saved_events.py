"""A file of `Events.save` gives the same events again, to `Events.load`, `read_log` and other programs."""

from __future__ import annotations

import os

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.simulation import Events, read_log, replay, traffic
from overlimit.simulation.events import saving

EVENTS = {
    "two columns": Events(
        [3, 1, 2, 2],
        {"ip": ["2001:db8::5", "ip:b", None, ""], "user": [7, None, "ä", "x"]},
        [1, 2, 3, 0],
        labels=["a", None, "b", "a"],
    ),
    "no name": Events([1, 2], ["2001:db8::5", "identifier:x"]),
    "bytes": Events([1, 2, 3], {"key": [b"\xff\0", "\ud800", "a\0"]}, labels=[b"\xfe", "b", None]),
    "none": Events([], {"ip": []}),
    "a part": traffic.mix(traffic.poisson(5, 100), traffic.scanner(5, 100))[100:200],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "day.events"


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_what_was_saved_is_loaded_and_read(path, events):
    events.save(path)
    assert Events.load(path) == events == read_log(path)
    assert [each.name for each in path.parent.iterdir()] == ["day.events"]


@pytest.mark.parametrize("events", [EVENTS["two columns"], EVENTS["bytes"]], ids=["texts", "bytes"])
def test_columns_of_events_and_of_their_tables_give_equal_events(path, events):
    labels, costs = events.labels, events.costs
    assert Events(events.times, events.identifiers, costs, unit="us", labels=labels) == events
    frame = events.to_pandas()
    names = list(events.identifiers)
    assert Events(frame["time"], frame[names], frame["cost"], labels=frame["label"]) == events
    assert Events(frame["time"], frame[names]) != events


def test_a_saved_file_is_a_table_of_parquet(path):
    events = EVENTS["two columns"]
    events.save(path)
    frame = pd.read_parquet(path)
    in_time = events.to_pandas().sort_values("time", kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(frame, in_time, check_dtype=False, check_categorical=False)
    assert len(read_log(path, where="cost > 1")) == 2
    assert read_log(path, identifiers="user").identifiers.keys() == {"user"}
    assert len(read_log(path, identifiers="user").bad_lines.reasons) == 1
    assert read_log(path, cost=1).costs.tolist() == [1] * 4
    assert len(read_log([path, path])) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "format= cannot apply to a file of Events.save, as its contents say"),
        ({"unit": "ms"}, "unit= cannot apply to a file of Events.save, as its times are known"),
        ({"ipv6_prefix": 128}, "ipv6_prefix= cannot apply to a file of Events.save, as its addresses are"),
        ({"columns": ["time", "ip"]}, "columns= is for CSV files"),
        ({"where": "status == 404"}, "Events.save keeps no others, so read the log itself with where="),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_apply_to_a_saved_file_is_said(path, options, message):
    EVENTS["two columns"].save(path)
    with pytest.raises(ValueError, match=message):
        read_log(path, **options)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**8),
        st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::/64"]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 3),
        st.sampled_from(["office", None]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=30)
@given(ROWS, st.sampled_from(["2/second; 5/minute", "3/minute burst 4"]))
def test_what_was_saved_answers_alike(tmp_path_factory, rows, policy):
    times, ips, users, costs, labels = zip(*rows, strict=True)
    events = Events(times, {"ip": ips, "user": users}, costs, unit="us", labels=labels)
    path = tmp_path_factory.mktemp("saved") / "events"
    events.save(path)
    answers = replay(events, policy)
    for same in (Events.load(path), read_log(path)):
        found = replay(same, policy)
        assert found.allowed.tolist() == answers.allowed[events.order].tolist()
        assert found.by_label().equals(answers.by_label())
        assert found.by_identifier().equals(answers.by_identifier())
        assert found.summary().equals(answers.summary())


def test_what_could_not_be_read_is_kept_and_a_folder_that_is_not_there_said(path):
    log = path.with_name("log.csv")
    log.write_text("time,ip\n1,a\nx,b\n2,\n", encoding="utf-8")
    events = read_log(log)
    events.save(path)
    loaded = Events.load(path)
    assert list(loaded.bad_lines) == list(events.bad_lines)
    assert loaded.bad_lines.reasons == {"the column 'time' holds no time": 1, "it has no ip": 1}
    with pytest.raises(ValueError, match=r"is no whole file of Events\.save: read_log reads other files"):
        Events.load(log)
    with pytest.raises(FileNotFoundError):
        events.save(path.parent / "no" / "folder")
    with pytest.raises(FileNotFoundError):
        Events.load(path.with_name("nowhere.parquet"))


def test_a_file_that_was_there_stays_if_the_new_one_cannot_be_written(path, monkeypatch):
    EVENTS["no name"].save(path)
    monkeypatch.setattr(saving, "_batches", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        EVENTS["two columns"].save(path)
    monkeypatch.undo()
    assert Events.load(path) == EVENTS["no name"]
    assert len(list(path.parent.iterdir())) == 1


def test_a_file_that_was_there_keeps_its_mode_and_links_to_it_and_what_is_no_file_stays(path):
    path.touch(0o600)
    link, pipe = path.with_name("link.parquet"), path.with_name("pipe")
    link.symlink_to(path)
    os.mkfifo(pipe)
    EVENTS["two columns"].save(link)
    assert Events.load(path) == EVENTS["two columns"]
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="is no file"):
        EVENTS["two columns"].save(pipe)
    assert pipe.is_fifo()


def test_the_first_events_and_a_column():
    events = EVENTS["two columns"]
    assert events.head(2).equals(events.to_pandas()[:2])
    assert len(events.head()) == 4
    assert events["user"].tolist() == ["user:7", None, "user:ä", "user:x"]
