"""Each row of the tables of formats is read, is in the docs, and is what hints and the command line name."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from overlimit.command_line.simulating import logs as command_line
from overlimit.simulation import read_log
from overlimit.simulation.logs import access_log
from overlimit.simulation.logs.choosing import FormatName
from overlimit.simulation.logs.log_formats import LOG_FORMATS
from overlimit.simulation.logs.time_formats import TIME_FORMATS

DOCS = Path(__file__).parents[2] / "docs/reference/log_formats.md"
SECONDS = 1_760_097_336
"""2025-10-10T11:55:36Z, which is when the samples are from."""
NOON = 1_772_452_800
"""2026-03-02T12:00:00Z"""
OF_LINES = [form for form in LOG_FORMATS if form.name not in {"json", "csv", "parquet"}]


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log and returns its path."""

    def write(text, name="some.log"):
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def times_of(*texts, tmp_path, **options):
    """Return the times of a CSV file and those of JSON lines of some texts, which are the same."""
    rows = {"a.csv": ["time,ip", *(f'"{text}",a' for text in texts)]}
    rows["a.jsonl"] = [json.dumps({"time": text, "ip": "a"}) for text in texts]
    found = []
    for name, lines in rows.items():
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        found.append([event.time for event in read_log(tmp_path / name, **options)])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("form", OF_LINES, ids=lambda form: form.name)
def test_the_sample_of_each_format(log, form):
    path = log(form.sample)
    # What has no offset is of the zone that the others are of.
    events = read_log(
        path, form.name, timezone="Etc/GMT-2" if "error" in form.name or form.name == "haproxy" else "UTC"
    )
    assert [(int(each.time), each.identifiers) for each in events] == [(SECONDS, ("ip:203.0.113.7",))]
    assert events.bad_lines.count == 0
    if form.name != "apache_error":
        frames = []
        where = lambda frame: frames.append(frame) or [True] * len(frame)  # noqa: E731
        read_log(path, form.name, ("path", "method"), where=where)
        assert frames[0][["method", "path"]].to_numpy().tolist()[0][0] == "GET"
        assert frames[0]["path"][0] == "/a"
        assert "error" in form.name or frames[0]["status"][0] == 200


@pytest.mark.parametrize("form", LOG_FORMATS, ids=lambda form: form.name)
def test_each_format_is_in_the_docs_with_its_sample_and_on_the_command_line(form):
    docs = DOCS.read_text(encoding="utf-8")
    assert f"| `{form.name}` | {form.written_by} |" in docs
    assert form.sample in docs
    assert {each.name for each in LOG_FORMATS} == set(get_args(FormatName)) == set(command_line._FORMATS)


@pytest.mark.parametrize("form", TIME_FORMATS, ids=lambda form: form.words)
def test_the_sample_of_each_form_of_times(tmp_path, form):
    docs = DOCS.read_text(encoding="utf-8")
    assert f"| `{form.sample}` | {form.written_by} |" in docs
    whole = [times_of(form.sample, tmp_path=tmp_path)[0]]
    assert whole[0] == pytest.approx(NOON if "2026" in form.sample else SECONDS, abs=0.126)
    # Many of them are read by numpy, and are what each is alone.
    day = datetime.fromtimestamp(int(whole[0]), UTC)
    words = re.sub(r"\[\.%f\]", ".%f", form.words).replace("[,]", "").replace("[ %z]", " %z")
    words = words.translate(str.maketrans("", "", "[]"))
    many = [day + timedelta(seconds=97 * k, microseconds=125_000 * (k % 3)) for k in range(50)]
    expected = [round(each.timestamp() * 8) / 8 if "%f" in words else int(each.timestamp()) for each in many]
    assert times_of(*(each.strftime(words) for each in many), tmp_path=tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30/Jul/2026:09:03:52.726", 1_785_402_232.726),
        ("[30/Jul/2026:09:03:52.726]", 1_785_402_232.726),
        ("10/Oct/2025:13:55:36.250 +0200", SECONDS + 0.25),
        ("10/Oct/2025:11:55:36", SECONDS),
        ("2025-10-10\t11:55:36", SECONDS),
        ("10.10.2025 11:55:36", SECONDS),
        ("10.10.2025, 11:55", SECONDS - 36),
        ("[2025-10-10T13:55:36+02:00]", SECONDS),
        ("2025/10/10 11:55:36", SECONDS),
        ("Fri Oct 10 11:55:36.125 2025", SECONDS + 0.125),
        ("Fri, 10 Oct 2025 11:55:36 GMT", SECONDS),
        ("Fri, 10 Oct 2025 13:55:36 +0200", SECONDS),
        ("[1760097336.125]", SECONDS + 0.125),
    ],
)
def test_forms_of_times(tmp_path, text, seconds):
    assert times_of(text, tmp_path=tmp_path) == [seconds]
    combined = f'203.0.113.7 - - [{text.strip("[]")}] "GET / HTTP/1.1" 200 5 "-" "-"'
    (tmp_path / "access.log").write_text(combined, encoding="utf-8")
    assert [each.time for each in read_log(tmp_path / "access.log")] == [seconds]


@pytest.mark.parametrize(
    ("words", "texts", "options"),
    [
        ("%m/%d/%Y %I:%M:%S %p", ["10/10/2025 11:55:36 AM", "10/10/2025 11:55:36 PM"], {}),
        ("%Y%m%d%H%M%S", ["20251010115536", "20251010235536"], {}),
        ("%y%j-%H%M%S", ["25283-115536", "25283-235536"], {}),
        (
            "%d %B %Y, %H:%M:%S.%f %z",
            ["10 October 2025, 13:55:36.0 +0200", "11 October 2025, 01:55:36.0 +0200"],
            {},
        ),
        ("[%d|%b|%Y] %H.%M.%S %Z", ["[10|Oct|2025] 11.55.36 UTC", "[10|Oct|2025] 23.55.36 GMT"], {}),
        ("%d/%m/%Y %H:%M:%S", ["10/10/2025 13:55:36", "11/10/2025 01:55:36"], {"timezone": "Europe/Berlin"}),
    ],
)
def test_a_form_of_ones_own_is_in_the_words_of_strptime(tmp_path, words, texts, options):
    found = times_of(*texts, tmp_path=tmp_path, time_format=words, **options)
    assert found == [SECONDS, SECONDS + 43_200]
    (tmp_path / "a.csv").write_text(
        f'time,ip\n"{texts[0]}",a\n1760097336,a\n2025-13-45 11:55:36,a\n', encoding="utf-8"
    )
    events = read_log(tmp_path / "a.csv", time_format=words, **options)
    assert len(events) + events.bad_lines.count == 3
    assert len(events) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("%H:%M", r"has no day and year, as '%d.%m.%Y %H:%M' has"),
        ("%d.%m. %H:%M", "has no day and year"),
        ("%d.%m.%Y %I:%M", "%I and %p are an hour together"),
        ("%d.%m.%Y %d", "has a word twice"),
        ("%d.%m.%Y %Q", "has %Q: it may have %Y %y"),
        ("%c", "has %c"),
    ],
)
def test_a_form_that_is_none_is_an_error_before_anything_is_read(log, words, message):
    with pytest.raises(ValueError, match=message):
        read_log(log("time,ip", "a.csv"), time_format=words)


def test_a_form_excludes_a_unit(log):
    path = log("time,ip\n5,a", "a.csv")
    with pytest.raises(ValueError, match="leave out one"):
        read_log(path, time_format="%Y%m%d", unit="ms")
    with pytest.raises(TypeError, match="time_format must be a text"):
        read_log(path, time_format=5)


def test_a_time_of_two_columns(log, tmp_path):
    path = log("date,time,ip\n2025-10-10,11:55:36,a\n2025-10-10,,b\n2025-10-10,11:55:37.5,c", "a.csv")
    events = read_log(path, time=("date", "time"))
    assert [each.time for each in events] == [SECONDS, SECONDS + 1.5]
    assert [each.reason for each in events.bad_lines] == ["the columns 'date' and 'time' hold no time"]
    late = read_log(path, time=("date", "time"), where="time > '2025-10-10 11:55:37+00:00'")
    assert late.identifiers["ip"].tolist() == ["ip:c"]
    frame = pd.read_csv(path)
    frame["date"] = pd.to_datetime(frame["date"]).dt.date
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_log(tmp_path / "a.parquet", time=["date", "time"]).times.tolist() == events.times.tolist()
    odd = log("day;hour;ip\n10.10.2025;11h55;a", "b.csv")
    found = read_log(odd, time=("day", "hour"), time_format="%d.%m.%Y %Hh%M", delimiter=";")
    assert [each.time for each in found] == [SECONDS - 36]


def test_days_without_times_are_told(log, tmp_path):
    text = "date,time,ip\n2025-10-10,11:55:36,a\n2025-10-10,11:55:37,a\n2025-10-11,11:55:37,a"
    with pytest.warns(
        UserWarning, match=r"'date' holds days without times, .* time=\('date', 'time'\) joins"
    ):
        assert len(read_log(log(text, "a.csv"), time="date")) == 3
    frame = pd.read_csv(tmp_path / "a.csv")
    frame["date"] = pd.to_datetime(frame["date"]).dt.date
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="holds days without times"):
        read_log(tmp_path / "a.parquet", time="date")
    # A row a day, and times that are written, are as they are meant.
    assert len(read_log(log("time,ip\n2025-10-10,a\n2025-10-11,a", "b.csv"))) == 2
    assert len(read_log(log("time,ip\n2025-10-10 00:00,a\n2025-10-10 00:00,a", "c.csv"))) == 2
    with pytest.raises(ValueError, match=r"it is a time of day: time=\('date', 'time'\)"):
        read_log(tmp_path / "a.csv")


CLOUDFRONT = """#Version: 1.0
#Fields: date time x-edge-location sc-bytes c-ip cs-method host cs-uri-stem sc-status cs(Referer) cs-uri-query
2025-10-10\t11:55:36\tFRA2\t512\t203.0.113.7\tGET\td1.example\t/a\t200\thttps://a.example\tb=1
2025-10-10\t11:55:37\tFRA2\t-\t2001:db8:1:2::5\tGET\td1.example\t/b c\t000\t-\t-
short\tline
#Fields: date time c-ip
2025-10-10 11:55:38 203.0.113.9"""


def test_the_columns_of_w3c_are_those_that_it_names_and_those_of_combined(log):
    path = log(CLOUDFRONT)
    events = read_log(path, "w3c", cost="bytes", timezone="Europe/Berlin")
    rows = [(each.time - SECONDS, each.identifiers[0], each.cost) for each in events]
    assert rows == [(0, "ip:203.0.113.7", 512), (1, "ip:2001:db8:1:2::/64", 0), (2, "ip:203.0.113.9", 0)]
    assert [(each.line, each.reason) for each in events.bad_lines] == [(5, "it has 2 fields, not 11")]
    places = read_log(path, "w3c", {"at": "x-edge-location"}, labels="path", missing="skip")
    assert places.identifiers["at"].tolist() == ["at:FRA2"] * 2
    assert list(places.labels) == ["/a?b=1", "/b c"]
    assert read_log(path, "w3c", where="status == 200").identifiers["ip"].tolist() == ["ip:203.0.113.7"]
    with pytest.raises(
        ValueError, match=r"no column 'nobody' in .*; there are 'date', 'time', .*'ip', 'method'"
    ):
        read_log(path, "w3c", "nobody")
    with pytest.raises(ValueError, match="no line #Fields: is before it"):
        read_log(log("2025-10-10 11:55:38 203.0.113.9"), "w3c")


@pytest.mark.parametrize(
    "begins", ["#Version: 1.0\n", "#Software: IIS\n#Version: 1.0\n#Date: 2025-10-10\n", ""]
)
@pytest.mark.parametrize("time", [None, "time", ("date", "time")])
def test_w3c_is_told_by_how_it_begins_and_its_days_by_either_way(tmp_path, begins, time):
    text = begins + CLOUDFRONT.removeprefix("#Version: 1.0\n")
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.log", "b.log.gz"):
        events = read_log(tmp_path / name, time=time, where="status != 404")
        assert (events.times // 1_000_000 - SECONDS).tolist() == [0, 1, 2]
        assert events.bad_lines.count == 1


def test_lists_of_addresses_count_by_the_one_that_the_last_proxy_saw(log):
    lists = ["203.0.113.7", ["198.51.100.1", "203.0.113.7"], "203.0.113.7, 10.0.0.1", ["203.0.113.7"], []]
    rows = [json.dumps({"time": k, "ip": each, "hops": ["a", "192.0.2.1"]}) for k, each in enumerate(lists)]
    events = read_log(log("\n".join(rows), "a.jsonl"), labels="hops")
    assert events.identifiers["ip"].tolist() == ["ip:203.0.113.7"] * 4
    assert set(events.labels) == {"a, 192.0.2.1"}
    assert list(events.bad_lines.reasons) == ["it has no ip"]
    path = log('{"time": 1, "ip": ["192.0.2.1", "2001:db8:1:2::5"]}\n{"time": 2, "ip": [1]}', "b.jsonl")
    for proxies, found in ((1, "2001:db8:1:2::/64"), (2, "192.0.2.1"), (["2001:db8::/32"], "192.0.2.1")):
        assert read_log(path, trusted_proxies=proxies).identifiers["ip"].tolist() == [f"ip:{found}"]
    two = read_log(path, ipv6_prefix=128)
    assert two.identifiers["ip"].tolist() == ["ip:2001:db8:1:2::5"]
    assert "holds what cannot be an identifier" in next(iter(two.bad_lines.reasons))


LINE = '203.0.113.7 - - [{}] "GET / HTTP/1.1" 200 5{}'


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([LINE.format("noon", ' "-" "-"')], {}, "holds no time; the first"),
        ([LINE.format("10/Oct/2025:13:55:36 +0200", "")], {}, "the common format: format='common'"),
        *(([form.sample], {}, f"format='{form.name}'") for form in OF_LINES[2:] if form.name != "w3c"),
        (
            ["time;ip", "5;a"],
            {"format": "csv"},
            r"there are 'time;ip'; ';' seems to separate them: delimiter=';'",
        ),
        (["time,ip", "5,a"], {"format": "csv", "delimiter": ";"}, r"delimiter=','"),
        (["time,ip", "5,a"], {}, "it looks like the csv format: format='csv'"),
        (["c ip\ttime", "a\t5"], {}, "it looks like the csv format: format='csv'"),
        (['[{"time": 5}]'], {}, "it looks like JSON: format='json'"),
        (['[{"time": 5}]'], {"format": "json"}, r"a line by itself, as jq -c writes it \(jq -c '\.\[\]'"),
        (["{", '"time": 5', "}"], {"format": "json"}, "a line by itself, as jq -c writes it"),
        (["time,ip", "5,a"], {"format": "csv", "identifiers": "key"}, r"there are 'time', 'ip'$"),
    ],
)
def test_hints_name_what_else_it_may_be(log, lines, options, message):
    with pytest.raises(ValueError, match=message):
        read_log(log("\n".join(lines)), **options)


def test_rows_of_parquet_are_not_taken_for_lines_of_another_format(tmp_path):
    pd.DataFrame({"time": [NOON * 1000], "ip": ["a"]}).to_parquet(tmp_path / "ms.parquet")
    with pytest.raises(ValueError, match=r"times look like milliseconds: unit='ms'; the first is"):
        read_log(tmp_path / "ms.parquet")


@pytest.mark.parametrize(("name", "comma"), [("X-Forwarded-For", ",+"), ("cs(X-Forwarded-For)", ",%20")])
def test_lists_of_addresses_in_w3c_have_no_spaces(log, name, comma):
    lines = [f"#Fields: date time {name}", f"2025-10-10 11:55:36 203.0.113.7{comma}10.0.0.9"]
    events = read_log(log("\n".join(lines)), identifiers={"ip": name})
    assert events.identifiers["ip"].tolist() == ["ip:203.0.113.7"]


def test_a_hole_before_a_line_is_no_part_of_the_address(log):
    good = LINE.format("10/Oct/2025:13:55:36 +0200", ' "-" "-"')
    for size in (4096, 9_000_000):
        events = read_log(log("\0" * size + good + "\n" + good))
        assert (events.identifiers["ip"].tolist(), events.bad_lines.count) == (["ip:203.0.113.7"] * 2, 0)


def test_what_is_compressed_is_told_by_its_contents_and_utf_16_is_named(tmp_path):
    good = LINE.format("10/Oct/2025:13:55:36 +0200", ' "-" "-"\n')
    (tmp_path / "rotated.1").write_bytes(gzip.compress(good.encode()))
    assert [each.time for each in read_log(tmp_path / "rotated.1")] == [SECONDS]
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "powershell.log").write_bytes(good.encode(encoding))
        with pytest.raises(ValueError, match=r"powershell.log is in UTF-16, .* iconv -f UTF-16 -t UTF-8"):
            read_log(tmp_path / "powershell.log")


@pytest.mark.parametrize("form", ["haproxy", "alb", "vhost_combined"])
def test_lines_of_other_clients(log, form):
    sample = next(each.sample for each in LOG_FORMATS if each.name == form)
    syslog = "Oct 10 13:55:36 lb1 haproxy[7]: " if form == "haproxy" else ""
    refused = sample.replace("203.0.113.7", "2001:db8:1:2::5").replace(
        " 200 512", " -1 +512" if syslog else " 499 -"
    )
    events = read_log(log(f"{syslog}{sample}\n{refused}\nx"), form, timezone="Etc/GMT-2")
    assert [each.identifiers[0] for each in events] == ["ip:203.0.113.7", "ip:2001:db8:1:2::/64"]
    assert events.bad_lines.count == 1
    assert access_log.AccessLog.has_numeric_times is False
