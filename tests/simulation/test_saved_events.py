"""A file of `Events.save` gives the same events again, to `Events.load`, `read_log` and other programs."""

from __future__ import annotations

import pandas as pd
import pytest

from overlimit.simulation import Events, read_log, traffic

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
    pd.testing.assert_frame_equal(frame, events.to_pandas(), check_dtype=False, check_categorical=False)
    assert len(read_log(path, where="cost > 1")) == 2
    assert read_log(path, identifiers="user").identifiers.keys() == {"user"}
    assert len(read_log(path, identifiers="user").bad_lines.reasons) == 1
    assert read_log(path, cost=1).costs.tolist() == [1] * 4
    assert len(read_log([path, path])) == 8


def test_what_could_not_be_read_is_kept_and_a_folder_that_is_not_there_said(path):
    log = path.with_name("log.csv")
    log.write_text("time,ip\n1,a\nx,b\n2,\n", encoding="utf-8")
    events = read_log(log)
    events.save(path)
    loaded = Events.load(path)
    assert list(loaded.bad_lines) == list(events.bad_lines)
    assert loaded.bad_lines.reasons == {"the column 'time' holds no time": 1, "it has no ip": 1}
    with pytest.raises(ValueError, match=r"is no file of Events\.save: read_log reads other files"):
        Events.load(log)
    with pytest.raises(FileNotFoundError):
        events.save(path.parent / "no" / "folder")


def test_a_file_that_was_there_stays_if_the_new_one_cannot_be_written(path, monkeypatch):
    EVENTS["no name"].save(path)
    monkeypatch.setattr(Events, "costs", property(lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        EVENTS["two columns"].save(path)
    monkeypatch.undo()
    assert Events.load(path) == EVENTS["no name"]
    assert len(list(path.parent.iterdir())) == 1


def test_the_first_events_and_a_column():
    events = EVENTS["two columns"]
    assert events.head(2).equals(events.to_pandas()[:2])
    assert len(events.head()) == 4
    assert events["user"].tolist() == [None, "user:ä", "user:x", "user:7"]
