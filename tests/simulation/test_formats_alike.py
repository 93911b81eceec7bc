"""The same events are read from every format, by the quick way as by the other, in every time zone."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.simulation import Events, read_log, replay
from overlimit.simulation.logs import access_log, csv_tables, json_lines
from overlimit.simulation.logs.local_times import instants_of_local

ZONES = {
    "Europe/Berlin": "2026-10-25T01:00",
    "America/New_York": "2026-03-08T07:00",
    "Australia/Lord_Howe": "2026-04-04T15:00",
    "Africa/Casablanca": "2026-02-15T02:00",
    "America/St_Johns": "2026-11-01T04:30",
    "Europe/Dublin": "2026-03-29T01:00",
    "Antarctica/Troll": "2026-03-29T01:00",
}
EPOCH = datetime(1970, 1, 1)


def local_rows(zone: str) -> list[tuple[datetime, str, str]]:
    """Return times with their offsets around a change of the clocks, without those that come again."""
    first = datetime.fromisoformat(ZONES[zone]).replace(tzinfo=UTC) - timedelta(hours=6)
    times = [(first + timedelta(minutes=13 * k, seconds=k)).astimezone(ZoneInfo(zone)) for k in range(60)]
    addresses = ["203.0.113.7", "2001:db8:1:2::5", "2001:db8:1:2::6", "192.0.2.1"]
    return [(time, addresses[k % 4], f"client {k % 3}") for k, time in enumerate(times) if not time.fold]


def write_all(folder, rows, zone):
    line = '{} - - [{:%d/%b/%Y:%H:%M:%S %z}] "GET / HTTP/1.1" 200 5'
    plain = [(f"{time:%Y-%m-%d %H:%M:%S}", ip, agent) for time, ip, agent in rows]
    naive = [time.replace(tzinfo=None) for time, _, _ in rows]
    texts = {
        "a.csv": ["time,ip,agent", *(",".join(row) for row in plain)],
        "quoted.csv": ["time,ip,agent", *('"' + '","'.join(row) + '"' for row in plain)],
        "a.jsonl": [json.dumps(dict(zip(("time", "ip", "agent"), row, strict=True))) for row in plain],
        "nested.ndjson": [json.dumps({"time": t, "agent": a, "ip": i, "x": {"y": 1}}) for t, i, a in plain],
        "access.log": [line.format(ip, time) + f' "-" "{agent}"' for time, ip, agent in rows],
    }
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    frame = pd.DataFrame({"time": naive, "ip": [r[1] for r in rows], "agent": [r[2] for r in rows]})
    frame.to_parquet(folder / "a.parquet")
    read_log(folder / "a.csv", timezone=zone, labels="agent").save(folder / "saved")
    return [folder / name for name in (*texts, "a.parquet", "saved")]


@pytest.mark.parametrize("zone", ZONES)
def test_every_format_gives_the_same_events_and_answers(tmp_path, zone):
    rows = local_rows(zone)
    changes = {time.utcoffset() for time, _, _ in rows}
    assert len(changes) == 2
    counted = [re.sub("::[56]$", "::/64", ip) for _, ip, _ in rows]
    expected = Events([r[0] for r in rows], {"ip": counted}, labels=[r[2] for r in rows])
    answers = replay(expected, "2/hour").allowed.tolist()
    unlabelled = Events(expected.times, expected.identifiers, unit="us")
    for path in write_all(tmp_path, rows, zone):
        form = "common" if path.suffix == ".log" else None
        assert read_log(path, form, ["ip"], timezone=zone, labels=None if path.suffix else "label") == (
            unlabelled if path.suffix else expected
        )
        for labels in ["agent", lambda frame: frame["agent"]] if path.suffix else [None]:
            events = read_log(path, timezone=zone, labels=labels)
            assert events == expected, path
            assert replay(events, "2/hour").allowed.tolist() == answers


@pytest.mark.parametrize("zone", [*ZONES, "UTC", "Asia/Kathmandu", "Africa/Monrovia", "Pacific/Apia"])
def test_local_times_are_the_earlier_instants_and_those_that_no_clock_showed_are_none(zone):
    where = ZoneInfo(zone)
    starts = [
        datetime.fromisoformat(ZONES.get(zone, "2011-12-30T12:00")),
        datetime(1972, 1, 7),
        datetime(2037, 5, 1),
    ]
    local = [start + timedelta(minutes=31 * k) for start in starts for k in range(-70, 70)]
    micros = np.array([(each - EPOCH) // timedelta(microseconds=1) for each in local])
    found, never = instants_of_local(micros, where)
    for each, instant, is_never in zip(local, found.tolist(), never.tolist(), strict=True):
        utc = each.replace(tzinfo=where).astimezone(UTC)
        back = utc.astimezone(where).replace(tzinfo=None)
        assert is_never == (back != each), each
        if not is_never:
            assert EPOCH + timedelta(microseconds=instant) == utc.replace(tzinfo=None), each


def test_a_time_that_comes_twice_is_the_first_and_one_that_never_came_is_a_bad_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "time,ip\n2026-10-25T02:30,a\n2026-03-29T02:30,b\n2026-03-29T02:30+01:00,c\n", encoding="utf-8"
    )
    events = read_log(path, timezone="Europe/Berlin")
    assert [event.time for event in events] == [1774747800, 1792888200]
    assert [each.reason for each in events.bad_lines] == [
        "the clocks of Europe/Berlin never showed this time"
    ]
    with pytest.raises(ValueError, match="timezone must be a name"):
        read_log(path, timezone="CEST")


def both_ways(module, path, **options):
    """Return what is read by the quick way, and by the other alone."""
    found = []
    for is_quick in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_quick:
                patch.setattr(module, "is_installed", lambda package: False)
            try:
                events = read_log(path, **options)
            except ValueError as error:
                found.append(str(error))
            else:
                rows = [list(events), list(events.bad_lines), dict(events.bad_lines.reasons)]
                found.append([*rows, events.skipped, events.order.tolist()])
    return found


# Separated by what none of them holds.
VALUES = (
    '1|2.5|2026-03-02T12:00:00Z|2026-03-02 12:00|a||"|""|"a,b"|"x\ny"|"q""q"|\'| 3|\r|\t|\0|ä|\udcff'
    '|"open|c"lose"|2001:db8::1|\ufeff|-|"7"|1e3'
)
VALUE = st.sampled_from(VALUES.split("|"))
RECORD = st.lists(VALUE, min_size=1, max_size=5).map(",".join) | st.sampled_from(
    ["1,a,x", '2,"b","y"', "", " "]
)
NEWLINE = st.sampled_from(["\n", "\r\n"])


@settings(max_examples=60)
@given(st.lists(RECORD, min_size=1, max_size=10), NEWLINE)
def test_csv_is_read_as_by_the_library(tmp_path_factory, records, newline):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = newline.join(["time,ip,user", "5,first,one", *records])
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    quick, slow = both_ways(csv_tables, path, identifiers=("ip", "user"), missing="skip")
    assert quick == slow


PARTS = {
    "ip": "192.0.2.1|2001:db8:1:2::5|-||a b|192.0.2.1, 192.0.2.2|ä|\udcff|a\tb|\0",
    "user": "-|ann|a b||ä",
    "time": "10/Oct/2025:13:55:36 +0200|10/Oct/2025:13:55:60 -0330|31/Feb/2025:13:55:36 +0200|now|1]3",
    "request": 'GET / HTTP/1.1|-||GET|GET /a"b|GET /\\"|POST  HTTP/1.1|get /ä HTTP/2|'
    "GET http://h:8/a?b HTTP/1.1|GET ws://h|\\",
    "status": "200|20|2000|abc|-",
    "size": "12|-|0|1234567890123456|-1|1x|",
    "agent": 'agent|-||a\\"b|a" "b|a" b|\\|\udcff',
    "end": '| more| "more"|x',
}
PART = {name: st.sampled_from(texts.split("|")) for name, texts in PARTS.items()}
GOOD_LINE = '192.0.2.7 - - [10/Oct/2025:13:55:36 +0200] "GET / HTTP/1.1" 200 5 "-" "-"'
LINE = '{ip} - {user} [{time}] "{request}" {status} {size} "-" "{agent}"{end}'


def formatted(parts):
    return LINE.format(**{name: text.split("|")[0] for name, text in PARTS.items()} | parts)


ACCESS_LINE = st.fixed_dictionaries({}, optional=PART).map(formatted) | st.sampled_from(
    [GOOD_LINE, GOOD_LINE[:-10], GOOD_LINE[:-8], "", " ", "x"]
)


@settings(max_examples=150)
@given(st.lists(ACCESS_LINE, max_size=8), NEWLINE, st.sampled_from(["combined", "common"]))
def test_access_logs_are_read_as_by_the_expression(tmp_path_factory, lines, newline, form):
    path = tmp_path_factory.mktemp("log") / "access.log"
    last = GOOD_LINE if form == "combined" else GOOD_LINE[:-8]
    path.write_bytes(newline.join([*lines, last]).encode("utf-8", "surrogateescape"))
    options = {"identifiers": ("ip", "user", "path"), "missing": "skip", "cost": "bytes", "labels": "status"}
    quick, slow = both_ways(access_log, path, format=form, **options)
    assert quick == slow


SCALARS = (
    '1|-1|2.5|1e3|1772452800000|"1"|"a"|""|null|true|NaN|Inf|Infinity|"2026-03-02T12:00:00Z"|"2026-03-02"'
    '|"ä"|"\udcff"|"\\ud800"|"\\u0000"|"\t"|[1]|{}|{"b": "x"}|{"b": null}|{"b": {"c": 1}}'
    "|12345678901234567890|9007199254740993|1.0|01"
)
SCALAR = st.sampled_from(SCALARS.split("|"))
PAIR = st.builds('"{}": {}'.format, st.sampled_from(["time", "ip", "a", "a.b", "x"]), SCALAR)
OBJECT = st.lists(PAIR, max_size=4).map(lambda pairs: "{" + ", ".join(pairs) + "}")
GOOD = '{"time": 5, "ip": "first", "a": {"b": "y"}}'
JSON_LINE = OBJECT | st.sampled_from(
    [GOOD, GOOD + GOOD, GOOD[:-1], "[1]", "", " ", GOOD + " ", "\0", "{" * 5]
)


@settings(max_examples=80)
@given(st.lists(JSON_LINE, max_size=8), NEWLINE, st.integers(0, 3))
def test_json_lines_are_read_as_by_the_library(tmp_path_factory, lines, newline, known):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    text = newline.join([GOOD] * known + lines + ['{"time": 6, "ip": 7, "a": {"b": "x"}}'])
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "_FEW", 1)
        quick, slow = both_ways(json_lines, path, identifiers=("ip", "a.b"), missing="skip")
    assert quick == slow


TEXTS = (
    "2026-03-02T12:34:56Z|2026-03-02 12:34:56|2026-03-02T12:34:56.7|2026-03-02T12:34:56.123456789Z"
    "|2026-03-02T12:34+02:00|2026-03-02T12:34:60Z|2026-13-02T12:34:56Z|02/Mar/2026:12:34:56 +0100"
    "|[02/Mar/2026:12:34:56 -0530]|2026-03-02|1772452800|1772452800.25|5.|.5|1e5|2026-03-02T12:3x:56Z"
    "|2026-03-02T12:34:56.25|2026-03-02T12:34:56.|1111111111111111111|0000000000000009|nan|"
)
TIMES = st.sampled_from([*TEXTS.split("|"), "x" * 50])


@settings(max_examples=40)
@given(st.lists(TIMES, min_size=1, max_size=12), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_many_times_are_read_as_each_of_them(tmp_path_factory, texts, zone):
    folder = tmp_path_factory.mktemp("times")
    head = ["time,ip", "7,first"]
    (folder / "all.csv").write_text("\n".join([*head, *(f"{text},a" for text in texts)]), encoding="utf-8")
    alone = {}
    for text in dict.fromkeys(texts):
        (folder / "one.csv").write_text("\n".join([*head, f"{text},a"]), encoding="utf-8")
        alone[text] = [event.time for event in read_log(folder / "one.csv", timezone=zone) if event.time != 7]
    found = read_log(folder / "all.csv", timezone=zone)
    assert [event.time for event in found] == sorted([7, *(time for text in texts for time in alone[text])])
