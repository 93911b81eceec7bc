"""``read_log`` by functions of the frame, masks in one order, and tables of Arrow and polars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

from overlimit.simulation import Events, read_log, replay, suggest

LINE = '203.0.113.{} - - [02/Mar/2026:12:00:0{} +0000] "GET {} HTTP/1.1" 200 {} "-" "agent {}"\n'
ROWS = [(7, 0, "/a/1", 900, "x"), (8, 1, "/b", 2_100, "y"), (7, 2, "/b?a", 50, "y"), (9, 3, "/", 10, "x")]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "access.log"
    path.write_text("".join(LINE.format(*row) for row in ROWS) + "nothing\n")
    return path


def test_identifiers_and_costs_are_what_functions_of_the_frame_return(log):
    def folder(frame):
        return frame["path"].str.extract("^/([^/?]+)", expand=False)

    def units(frame):
        assert frame["time"].dt.tz is not None
        return frame["bytes"] // 1000 + 1

    events = read_log(log, identifiers={"ip": "ip", "folder": folder}, cost=units)
    assert events["ip"].tolist() == [f"ip:203.0.113.{row[0]}" for row in ROWS]
    assert events["folder"].tolist() == ["folder:a", "folder:b", "folder:b", None]
    assert events.costs.tolist() == [1, 3, 1, 1]
    assert events.bad_lines.count == 1
    both = read_log(log, identifiers=lambda frame: (frame["ip"] + frame["agent"]).tolist())
    assert both.identifiers.tolist() == [f"203.0.113.{row[0]}agent {row[4]}" for row in ROWS]
    of_whole = read_log(log, identifiers=lambda frame: frame["user"], missing="skip", where="status == 200")
    assert (len(of_whole), of_whole.skipped) == (0, 4)


def test_a_value_that_a_function_returns_may_be_bad_and_what_is_no_column_is_an_error(log):
    events = read_log(log, cost=lambda frame: [1, -1, 2, 2])
    assert len(events) == 3
    assert events.bad_lines.reasons["the column 'cost()' holds no whole number from 0"] == 1
    ipv6 = read_log(log, identifiers=lambda frame: ["2001:db8:1:2::7"] * 4)
    assert set(ipv6.identifiers) == {"2001:db8:1:2::/64"}, "addresses count by their network"
    for given, message in (
        ({"cost": lambda frame: 5}, "cost= must return a column"),
        ({"cost": lambda frame: [5]}, "cost= must return a value for each of 4 rows, and gave 1"),
        ({"identifiers": lambda frame: frame[["ip"]]}, "identifiers= must return a column"),
        ({"identifiers": lambda frame: "ip"}, "identifiers= must return a column"),
        ({"cost": 1.5}, "a whole number, the name of a column or a function"),
    ):
        with pytest.raises(TypeError, match=message):
            read_log(log, **given)


def test_a_mask_in_another_order_is_an_error():
    frame = pd.DataFrame({"time": [3, 1, 2], "ip": ["c", "a", "b"], "status": [404, 200, 200]})
    events = Events(frame["time"], frame[["ip"]])
    assert events[frame["status"] == 404]["ip"].tolist() == ["ip:c"]
    sorted_mask = frame.sort_values("time")["status"] == 404
    for ask in (lambda: events[sorted_mask], lambda: suggest(events, "{}/minute", (1, 9), among=sorted_mask)):
        with pytest.raises(ValueError, match=r"index of this Series is in another: sort_index\(\)"):
            ask()
    assert events[sorted_mask.sort_index()]["ip"].tolist() == ["ip:c"]
    assert events[sorted_mask.to_numpy()]["ip"].tolist() == ["ip:b"], "as it is told to"
    part = frame[frame["time"] > 1]  # whose index has gaps, and is in order
    assert Events(part["time"], part[["ip"]])[part["status"] == 404]["ip"].tolist() == ["ip:c"]


def test_tables_of_arrow_and_polars_are_those_of_pandas():
    events = Events(
        [3, 1, 2], {"ip": ["c", "a", None], "user": ["x", "x", "y"]}, [1, 2, 3], labels=["l", None, "m"]
    )
    answers = replay(events, ["1/minute", "5/hour"])
    for asked in (events, answers):
        table, frame = asked.to_arrow(), asked.to_pandas()
        assert isinstance(table, pyarrow.Table)
        assert table.column_names == frame.columns.tolist()
        for name in table.column_names:
            own = [None if pd.isna(each) else each for each in frame[name].tolist()]
            assert table[name].to_pylist() == own
        assert asked.to_polars().equals(polars.from_arrow(table))
    assert (
        Events(polars.from_arrow(events.to_arrow())["time"], ["a"] * 3).times.tolist()
        == events.times.tolist()
    )
    odd = Events([1, 2], ["a", b"\xff"]).to_arrow()
    assert odd["identifier"].to_pylist() == [b"a", b"\xff"]


def test_without_polars_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_polars needs polars: pip install polars$"):
        Events([1], ["a"]).to_polars()
    assert np.all(Events([1], ["a"]).to_arrow()["cost"].to_numpy() == 1)
