"""Logs in every format become the events that are in them, and nothing of them is dropped silently."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit._addresses import grouped
from overlimit.simulation import read_log
from overlimit.simulation.logs import access_log
from overlimit.simulation.logs.chunks import ZSTD

AT = "[10/Oct/2025:13:55:36 +0200]"
SECONDS = 1_760_097_336
AGENT = '"https://shop.example/" "Mozilla/5.0 (X11)"'


def line(ip="203.0.113.7", user="-", at=AT, request="GET /a?b=1 HTTP/1.1", status=200, size=12, agent=AGENT):
    return f'{ip} - {user} {at} "{request}" {status} {size}{" " * bool(agent)}{agent}'


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log and returns its path."""

    def write(*lines, name="access.log", end="\n"):
        path = tmp_path / name
        path.write_bytes("".join(each + end for each in lines).encode("utf-8", "surrogateescape"))
        return path

    return write


def test_a_combined_log(log):
    later = AT.replace(":36", ":37")
    path = log(
        line(at=later), line("203.0.113.8", "ann"), line("2001:db8:1:2::5", "-"), line("2001:db8:1:2::6")
    )
    events = read_log(path, identifiers=("ip", "user"))
    assert [event.time for event in events] == [SECONDS] * 3 + [SECONDS + 1]
    assert [event.identifiers for event in events] == [
        ("ip:203.0.113.8", "user:ann"),
        ("ip:2001:db8:1:2::/64",),
        ("ip:2001:db8:1:2::/64",),
        ("ip:203.0.113.7",),
    ]
    assert events.order.tolist() == [0, 1, 2, 3]
    assert events.costs.tolist() == [1] * 4
    assert (events.bad_lines.count, events.skipped) == (0, 0)
    assert len(read_log(path, ipv6_prefix=128)._columns[0].labels) == 4


def test_what_can_be_named(log):
    path = log(line(user="ann"), line(request="-", agent='"-" "-"'), line(request=r"\x16\x03 \"", size="-"))
    for name, values in {
        "method": ["GET", None, None],
        "path": ["/a?b=1", None, None],
        "status": ["200"] * 3,
        "agent": ["Mozilla/5.0 (X11)", None, "Mozilla/5.0 (X11)"],
        "referer": ["https://shop.example/", None, "https://shop.example/"],
        "bytes": ["12", "12", None],
        "user": ["ann", None, None],
    }.items():
        events = read_log(path, identifiers=name, missing="skip")
        assert events.identifiers[name].tolist() == [f"{name}:{value}" for value in values if value]
        assert events.skipped == values.count(None)
    assert read_log(path, cost="bytes").costs.tolist() == [12, 12, 0]
    assert read_log(path, identifiers={"who": "user", "ip": "ip"})[0].identifiers == (
        "who:ann",
        "ip:203.0.113.7",
    )


def test_the_common_format_also_reads_what_follows(log):
    path = log(line(agent=""), line(), line(agent="0.003"))
    events = read_log(path, "common")
    assert len(events) == 3
    assert len(read_log(path)) == 1
    assert read_log(path).bad_lines.count == 2
    with pytest.raises(ValueError, match=r"no line could be read: .* the common format: format='common'"):
        read_log(log(line(agent="")))
    path = log(line(agent=""), line(), line(agent="0.003"))
    with pytest.raises(ValueError, match=r"no column 'agent'; there are 'ip', 'user', .*'bytes'$"):
        read_log(path, "common", "agent")
    assert len(read_log(log(line(agent=AGENT + ' "203.0.113.9" 0.003')))) == 1


FIELD = st.sampled_from(
    ["", "-", " ", '"', "\\", '\\"', r"\x22", "[", "]", "a", "a b", "ä", "\r", "1", '" "', '""']
)
REST = st.sampled_from([AGENT, "", '"a" "b" c', '"a"  "b"', "- -"])
BROKEN = [line(at="[x +0000]"), line(at="10/Oct/2025:13:55:36 +0200"), line() + '"', line(ip=""), "", "-"]


def odd_line(ip, user, request, status, size, end, rest):
    return line(
        ip=f"203.0.113.7{ip}".strip(" "),
        user=f"u{user}" if user != "-" else "-",
        request=f"GET /{request} HTTP/1.1",
        status=f"200{status}",
        size=f"1{size}",
        agent=rest + end,
    )


ODD = st.builds(odd_line, FIELD, FIELD, FIELD, FIELD, FIELD, FIELD, REST)
LINES = st.lists(ODD | st.sampled_from([line(), *BROKEN]), min_size=1, max_size=12)


@given(LINES, st.booleans())
def test_the_quick_way_reads_what_the_regular_expression_does(tmp_path_factory, lines, combined):
    lines = [line(agent=AGENT if combined else ""), *lines]
    path = tmp_path_factory.mktemp("log") / "access.log"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    form = "combined" if combined else "common"
    quick = read_log(path, form, ("ip", "user"), cost="bytes", missing="skip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_log, "is_installed", lambda package: False)
        plain = read_log(path, form, ("ip", "user"), cost="bytes", missing="skip")
    assert list(quick) == list(plain)
    assert list(quick.bad_lines) == list(plain.bad_lines)
    assert quick.bad_lines.count + len(quick) + quick.skipped == len([each for each in lines if each.strip()])


def test_bad_lines_are_counted_and_the_first_ten_kept(log):
    lines = [line() if k % 2 else f"bad {k}" for k in range(50)]
    events = read_log(log(*lines))
    assert len(events) == events.bad_lines.count == 25
    assert [tuple(each) for each in events.bad_lines] == [
        (str(log(*lines)), k + 1, f"bad {k}", "it is not a line of this format") for k in range(0, 20, 2)
    ]
    assert events.bad_lines.reasons == {"it is not a line of this format": 25}
    assert "25 bad lines" in repr(events)
    assert "1 bad line)" in repr(read_log(log(line(), "bad")))
    assert "bad 18" in repr(events.bad_lines)
    assert events[:3].bad_lines.count == 25
    with pytest.raises(ValueError, match=r"access.log, line 1 cannot be read: it is not a line .*'bad 0'"):
        read_log(log(*lines), on_bad="raise")
    with pytest.raises(ValueError, match=r"line 2 cannot be read: the column 'time' holds no time"):
        read_log(log(line(), line(at="[31/Feb/2025:13:55:36 +0200]")), on_bad="raise")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10/Oct/2025:13:55:36 +0200", SECONDS),
        ("10/Oct/2025:06:25:36 -0530", SECONDS),
        ("2025-10-10T11:55:36Z", SECONDS),
        ("2025-10-10 11:55:36", SECONDS),
        ("2025-10-10T13:55:36.250+02:00", SECONDS + 0.25),
        ("2025-10-10T13:55:36,123456789+02", SECONDS + 0.123457),
        ("2025-10-10T11:55", SECONDS - 36),
        ("2025-10-10", SECONDS // 86_400 * 86_400),
        (str(SECONDS), SECONDS),
        (f"{SECONDS}.5", SECONDS + 0.5),
        ("30/Jun/2015:23:59:60 +0000", 1_435_708_800),
    ],
)
def test_times(log, text, seconds):
    assert read_log(log("time,ip", f'"{text}",a'), "csv")[0].time == seconds


def test_times_that_are_none(log):
    none = [
        "",
        "-",
        "2025-10-10T25:00",
        "2025-13-10",
        "2025-10-10T11:55:61Z",
        "1e5",
        "-5",
        "99999999999",
        "x",
    ]
    none.append("29/Feb/2025:00:00:00 +0000")
    events = read_log(log("time,ip", *(f'"{text}",a' for text in none), "5,b"), "csv")
    assert len(events) == 1
    assert [each.line for each in events.bad_lines] == list(range(2, 2 + len(none)))


def test_json_lines(log):
    rows = [
        {"time": SECONDS, "ip": "203.0.113.7", "user": 7, "n": 3},
        {"time": SECONDS + 0.5, "ip": "::1", "n": 0},
    ]
    bad = [
        "[1]",
        "{",
        '{"time": true, "ip": "a", "n": 1}',
        '{"ip": "a", "n": 1}',
        json.dumps(rows[0] | {"n": -1}),
    ]
    bad += [
        json.dumps(rows[0] | {"user": ["a"]}),
        json.dumps(rows[0] | {"n": None}),
        json.dumps(rows[0] | {"user": True}),
    ]
    path = log(*map(json.dumps, rows), *bad, "")
    events = read_log(path, "json", ("ip", "user"), cost="n")
    assert [event[:3] for event in events] == [
        (SECONDS, ("ip:203.0.113.7", "user:7"), 3),
        (SECONDS + 0.5, ("ip:::/64",), 0),
    ]
    assert [each.line for each in events.bad_lines] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [each.text for each in events.bad_lines] == bad
    for name, options in {
        "when": {"time": "when"},
        "size": {"cost": "size"},
        "key": {"identifiers": ("ip", "key")},
    }.items():
        with pytest.raises(
            ValueError, match=rf"no column '{name}' in .*access.log; there are 'time', 'ip', 'user', 'n'"
        ):
            read_log(path, "json", **options)


def test_csv(log):
    path = log("when;ip;user;n", '1.5;007;"a;b";2', "2500;", "3;x;;1", '4;"y\nz";c;5', end="\r\n")
    events = read_log(path, "csv", ("ip", "user"), time="when", cost="n", delimiter=";")
    assert [event[:3] for event in events] == [
        (1.5, ("ip:007", "user:a;b"), 2),
        (3.0, ("ip:x",), 1),
        (4.0, ("ip:y\nz", "user:c"), 5),
    ]
    assert [tuple(each)[1:] for each in events.bad_lines] == [(3, "2500;", "it has 2 fields, not 4")]
    assert read_log(log("5,a"), "csv", columns=["time", "ip"])[0].time == 5
    assert read_log(log("5000,a"), "csv", columns=["time", "ip"], unit="ms")[0].time == 5
    assert read_log(log("\ufefftime,ip", "5,a"), "csv")[0].time == 5
    with pytest.raises(ValueError, match=r"no column 'ip' or 'time' in .*; there are 'a', 'b'"):
        read_log(log("a,b"), "csv")
    with pytest.raises(ValueError, match="the same name"):
        read_log(log("time,ip,ip"), "csv")


def test_parquet(tmp_path):
    path = tmp_path / "log.parquet"
    times = pd.to_datetime([SECONDS + 1, SECONDS, None], unit="s", utc=True)
    frame = pd.DataFrame({"time": times, "ip": ["::1", "a", "b"], "user": [1, None, 2], "n": [1, 2, 3]})
    frame.to_parquet(path)
    events = read_log(path, "parquet", ("ip", "user"), cost="n")
    assert [event[:3] for event in events] == [
        (SECONDS, ("ip:a",), 2),
        (SECONDS + 1, ("ip:::/64", "user:1"), 1),
    ]
    assert [each.line for each in events.bad_lines] == [3]
    assert len(read_log(path, "parquet", where="n == 2")) == 1
    with pytest.raises(ValueError, match="no column 'when'"):
        read_log(path, "parquet", time="when")


def test_the_name_of_a_file_tells_its_format_and_columns_may_be_nested(tmp_path):
    rows = [{"time": 5, "request": {"remote_ip": "a", "by": {"user": 7}}}, {"time": 6, "request": None}]
    texts = {
        "a.csv": "time,request.remote_ip,request.by.user\n5,a,7\n6,,\n",
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    texts["B.NDJSON"] = texts["a.jsonl"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    pd.DataFrame(rows).to_parquet(tmp_path / "a.parquet")
    names = {"ip": "request.remote_ip", "user": "request.by.user"}
    for path in sorted(tmp_path.iterdir()):
        events = read_log(path, identifiers=names)
        assert [event[:2] for event in events] == [(5, ("ip:a", "user:7"))], path
        assert events.bad_lines.reasons == {"it has no request.remote_ip or request.by.user": 1}
    assert len(read_log(tmp_path / "*", identifiers=names)) == 7


def test_a_parquet_file_that_was_cut_is_a_bad_line(tmp_path):
    whole, cut = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pd.DataFrame({"time": range(100), "ip": ["a"] * 100}).to_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-30])
    events = read_log([whole, cut], "parquet")
    assert (len(events), events.bad_lines.count) == (100, 1)
    assert next(iter(events.bad_lines)).file == str(cut)
    for on_bad in ("raise", "count"):
        with pytest.raises(ValueError, match=r"no Parquet, or cut"):
            read_log(cut, "parquet", on_bad=on_bad)


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        (["1,a,u", '2,b,"oops', *(f"{k},c,z" for k in range(3, 1003))], [1, *range(3, 1003)]),
        (["0,a,u", '1,a,"cut'], [0]),
        (['1,a,"two', 'lines"', "2,a,x"], [1, 2]),
        (['1,a,"x"y', "2,b,z"], [2]),
        (['1,a,"x', '2,b,"y', "3,c,z", '4,d,"w"'], [3, 4]),
    ],
    ids=["open to the end", "cut", "closed on the next line", "text behind it", "one after the other"],
)
def test_an_open_quote_in_csv_is_a_bad_line_and_hides_no_other(log, rows, times):
    events = read_log(log("time,ip,agent", *rows), "csv")
    assert events.times.tolist() == [time * 10**6 for time in times]
    bad = list(events.bad_lines)
    broken = [f"{rows.index(row) + 2}: {row}" for row in rows if row.split(",")[0] in "1234" and '"' in row]
    expected = [each for each in broken if int(each.split(": ")[1].split(",")[0]) not in times]
    assert [f"{each.line}: {each.text}" for each in bad] == expected


def test_open_quotes_here_and_there_cost_no_more_than_their_lines(log):
    broken = '"Moz'
    rows = [f"{k},10.0.0.{k % 9},{broken if k % 1000 == 7 else 'ok'}" for k in range(20_000)]
    events = read_log(log("time,ip,agent", *rows), "csv")
    assert (len(events), events.bad_lines.count) == (19_980, 20)
    assert next(iter(events.bad_lines)).line == 9


def test_a_regular_expression(log):
    pattern = re.compile(r"^(?P<when>\S+) (?P<ip>\S+)( (?P<n>\d+))?")
    events = read_log(log(f"{SECONDS} a 5", f"{SECONDS} b", "no"), pattern, time="when")
    assert events.identifiers["ip"].tolist() == ["ip:a", "ip:b"]
    assert [each.text for each in events.bad_lines] == ["no"]
    path = log(f"{SECONDS} a 5", f"{SECONDS} b")
    assert read_log(path, pattern, time="when", cost="n").bad_lines.count == 1
    with pytest.raises(ValueError, match=r"no column 'time'; there are 'when', 'ip', 'n'"):
        read_log(log("x"), pattern)
    with pytest.raises(ValueError, match="no named groups"):
        read_log(log("x"), re.compile("x"))
    with pytest.raises(TypeError, match="not for bytes"):
        read_log(log("x"), re.compile(b"(?P<ip>x)"))


@pytest.mark.parametrize("form", ["combined", "csv", "json"])
def test_conditions(log, form):
    rows = [
        ("a", "2025-10-10T13:00", 200, "/x"),
        ("b", "2025-10-10T14:00", 404, "/y"),
        ("c", "2025-10-10T14:00", 200, "/yz"),
    ]
    lines = {
        "combined": [
            line(ip, at=f"[10/Oct/2025:{at[-5:]}:00 +0000]", request=f"GET {path} HTTP/1.1", status=status)
            for ip, at, status, path in rows
        ]
        + [line("d", request=r"\x16", status=400)],
        "csv": ["ip,time,status,path", *(f"{ip},{at},{status},{path}" for ip, at, status, path in rows)],
        "json": [json.dumps(dict(zip(("ip", "time", "status", "path"), row, strict=True))) for row in rows],
    }
    path = log(*lines[form])

    def read(where):
        return [each.removeprefix("ip:") for each in read_log(path, form, where=where).identifiers["ip"]]

    assert read("status == 200") == ["a", "c"]
    assert read("status == 200 and path.str.startswith('/y')") == ["c"]
    assert read(lambda frame: frame["time"].dt.hour == 14)[-2:] == ["b", "c"]
    assert read(lambda frame: frame["path"].str.startswith("/y")) == ["b", "c"]
    assert read(lambda frame: [False] * len(frame)) == []
    with pytest.raises(ValueError, match=r"where='code == 1': .*there are .*'status'"):
        read("code == 1")
    with pytest.raises(TypeError, match="must say true or false for each of"):
        read("status")
    with pytest.raises(ValueError, match="where='status ==' is no condition"):
        read("status ==")
    with pytest.raises(TypeError, match="times have an offset, as in"):
        read("time > '2025-10-10 14:00'")
    assert read("time > '2001-01-01 14:00+00:00'")


def test_conditions_see_no_bad_lines_and_all_of_the_fields(log):
    seen = []
    read_log(
        log(line(user="ann"), line(at="[x +0000]"), line(size="-")),
        where=lambda frame: seen.append(frame) or True,
    )
    fields = {"ip", "user", "time", "method", "path", "status", "bytes", "referer", "agent"}
    assert set(seen[0].columns) == fields
    assert len(pd.concat(seen)) == 2
    assert seen[0]["bytes"].isna().tolist() == [False, True]
    assert str(seen[0]["time"].dtype).endswith("UTC]")


COMPRESSIONS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: import_module(ZSTD).compress(data),
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_files_and_those_that_are_cut(tmp_path, suffix):
    random = np.random.default_rng(0)
    text = "".join(line(f"203.0.113.{k % 250}", size=random.integers(10**9)) + "\n" for k in range(10_000))
    whole = COMPRESSIONS[suffix](text.encode())
    path = tmp_path / f"access.log{suffix}"
    for content, count in ((whole, 10_000), (whole + whole, 20_000), (b"", 0)):
        path.write_bytes(content)
        assert len(read_log(path)) == count
    for damaged in (whole[: len(whole) * 3 // 4], whole + b"garbage that follows"):
        path.write_bytes(damaged)
        events = read_log(path)
        assert events.bad_lines.count == 1
        assert next(iter(events.bad_lines)).line == len(events) + 1
        assert 2_500 < len(events) <= 10_000
        with pytest.raises(ValueError, match=rf"line {len(events) + 1} cannot be read: the compressed file"):
            read_log(path, on_bad="raise")


MILLIS = SECONDS * 1000


@pytest.mark.parametrize(
    ("form", "lines", "options", "message"),
    [
        (
            "csv",
            ["time,ip", *[f"{MILLIS},a"] * 3],
            {},
            "times look like milliseconds: unit='ms'",
        ),
        ("json", [f'{{"time": {MILLIS}000, "ip": "a"}}'], {}, "times look like microseconds: unit='us'"),
        ("csv", ["time,ip", f"{MILLIS}000000,a"], {"unit": "us"}, "times look like nanoseconds: unit='ns'"),
        ("csv", ["time,ip", f"{SECONDS},a"], {"unit": "ns", "cost": "ip"}, "'ip' holds no whole number"),
        ("combined", ['{"time": 1}'], {}, "it looks like JSON: format='json'"),
        ("combined", ["x", "y"], {}, r"this format \('combined'\); the first is .*access.log, line 1: 'x'"),
        ("json", [line()], {}, "it is not an object in JSON"),
        ("csv", ["time,ip", "03/02/2026 12:00,a"], {}, "time_format='%m/%d/%Y %H:%M:%S'"),
        ("csv", ["time,ip", "2026-03-02 12:00 CET,a"], {}, "the name of a zone: .* timezone="),
        ("csv", ["time,ip,user", "1,a,"], {"identifiers": "user"}, "has no user; is that the right column"),
    ],
    ids=range(10),
)
def test_a_log_of_which_no_line_can_be_read_is_an_error_that_says_why(log, form, lines, options, message):
    with pytest.raises(ValueError, match=f"^no line could be read: .*{message}"):
        read_log(log(*lines), form, **options)
    with pytest.raises(ValueError, match=r"line [12] cannot be read"):
        read_log(log(*lines), form, on_bad="raise", **options)


@pytest.mark.parametrize(
    ("unit", "times", "meant"),
    [
        ("ms", [SECONDS, SECONDS + 9], "from 1970-01-21 to 1970-01-21: did you mean unit='s'?"),
        ("ns", [MILLIS], "from 1970-01-01 to 1970-01-01: did you mean unit='ms'?"),
        ("us", [0, MILLIS], None),
        ("ms", [MILLIS], None),
    ],
)
def test_a_unit_that_puts_a_log_into_the_last_century_is_warned_of(log, recwarn, unit, times, meant):
    path = log("time,ip", *(f"{time},a" for time in times))
    assert len(read_log(path, "csv", unit=unit)) == len(times)
    said = [str(each.message) for each in recwarn.list]
    assert said == [f"with unit={unit!r} this log is {each}" for each in [meant] if each]


@pytest.mark.parametrize("options", [{"unit": "ms"}, {"delimiter": ";"}, {"columns": ["ip"]}])
def test_options_without_effect_are_errors(log, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))}= is for "):
        read_log(log(line()), **options)


@pytest.mark.parametrize("form", ["combined", "csv"])
def test_ten_thousand_bad_lines_end_the_reading_unless_one_before_was_good(log, form):
    good, bad = (line(), "bad") if form == "combined" else ("1,a", "x,a")
    head = [] if form == "combined" else ["time,ip"]
    many = [bad, ""] * 9_999
    assert len(read_log(log(*head, *many, good, bad, bad), form)) == 1
    assert len(read_log(log(*head, good, *many, bad, bad), form)) == 1
    for lines in ([*many, bad, good], [*many, bad]):
        with pytest.raises(ValueError, match=r"^none of the first 10,000 lines could be read: "):
            read_log(log(*head, *lines), form)
    parts = [log(*head, *[bad] * 6_000, name=f"{k}.log") for k in range(2)]
    with pytest.raises(ValueError, match=r"first 10,000 lines could be read: .*0\.log, line [12]: "):
        read_log(parts, form)
    assert len(read_log([log(*head, good, name="good.log"), *parts], form)) == 1


def test_addresses_count_by_their_network_in_every_column(log):
    rows = [
        "2001:db8:1:2::5,2001:DB8:1:2::6",
        "203.0.113.7,alice",
        "2001:db8:1:3::1,a:b",
        "::ffff:192.0.2.1,a.b.c",
    ]
    path = log("time,client,user", *(f"{k},{row}" for k, row in enumerate(rows)))
    found = read_log(path, "csv", ("client", "user")).identifiers
    networks = ["2001:db8:1:2::/64", "203.0.113.7", "2001:db8:1:3::/64", "192.0.2.1"]
    assert found["client"].tolist() == [f"client:{each}" for each in networks]
    assert found["user"].tolist() == ["user:2001:db8:1:2::/64", "user:alice", "user:a:b", "user:a.b.c"]
    written = read_log(path, "csv", ("client", "user"), ipv6_prefix=128).identifiers
    assert [f"{a},{b}" for a, b in zip(*written.values(), strict=True)] == [
        f"client:{row}".replace(",", ",user:") for row in rows
    ]


def test_a_prefix_that_is_there_stays(log):
    events = read_log(log("time,ip", "1,ip:2001:db8::/64", "2,2001:db8::7", "3,b"), "csv")
    assert events.identifiers["ip"].tolist() == ["ip:2001:db8::/64", "ip:2001:db8::/64", "ip:b"]


@pytest.mark.parametrize("identifiers", ["key", ("key", "token")])
def test_a_column_that_no_line_has_is_named_before_the_first_line(log, identifiers):
    path = log('{"time": 1, "ip": "a"}', '{"time": 2, "ip": "b"}')
    with pytest.raises(
        ValueError, match=r"^there is no column 'key'( or 'token')? in .*; there are 'time', 'ip'$"
    ):
        read_log(path, "json", identifiers)
    with pytest.raises(ValueError, match=r"^there is no column 'key'"):
        read_log(path, "json", identifiers, missing="skip")


def test_several_files(log, tmp_path):
    paths = [log(line(f"203.0.113.{k}"), "bad", name=f"access.log.{k}") for k in range(3)]
    assert len(read_log(tmp_path / "access.log.0")) == 1
    assert len(read_log(str(tmp_path / "access.log.*"))) == len(read_log(paths)) == 3
    assert [each.file for each in read_log(paths).bad_lines] == list(map(str, paths))
    assert len(read_log([tmp_path / "*.0", paths[1]])) == 2
    for nothing in (tmp_path / "other", tmp_path / "other*", []):
        with pytest.raises(FileNotFoundError):
            read_log(nothing)


def test_lines_without_identifiers_are_bad_unless_they_are_skipped(log):
    path = log(line(user="ann"), line(), "bad")
    events = read_log(path, identifiers="user")
    assert (len(events), events.skipped) == (1, 0)
    assert [each.reason for each in events.bad_lines] == ["it has no user", "it is not a line of this format"]
    with pytest.raises(ValueError, match=r"access.log, line 2 has no user: missing='skip' .*203.0.113.7"):
        read_log(path, identifiers="user", missing="raise")
    events = read_log(path, identifiers="user", missing="skip")
    assert (len(events), events.skipped, events.bad_lines.count) == (1, 1, 1)
    assert len(read_log(path, where="status == 404")) == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"format": "apache"}, ValueError),
        ({"identifiers": ()}, ValueError),
        ({"identifiers": ("time",)}, ValueError),
        ({"identifiers": {"a:b": "ip"}}, ValueError),
        ({"time": "when"}, ValueError),
        ({"cost": "size"}, ValueError),
        ({"cost": -1}, ValueError),
        ({"cost": 1.5}, TypeError),
        ({"where": 5}, TypeError),
        ({"unit": "h"}, ValueError),
        ({"missing": "drop"}, ValueError),
        ({"on_bad": "ignore"}, ValueError),
        ({"ipv6_prefix": 0}, ValueError),
        ({"columns": ["a"]}, ValueError),
        ({"format": "csv", "delimiter": "||"}, ValueError),
        ({"format": "csv", "columns": "ip,time"}, TypeError),
        ({"identifiers": 5}, TypeError),
        ({"time": 5}, TypeError),
    ],
    ids=range(18),
)
def test_wrong_options_are_refused_before_all_is_read(log, options, error):
    with pytest.raises(error):
        read_log(log(line()), **options)


def test_long_lines_and_bytes_that_are_no_text(log, tmp_path):
    path = log(line(), "x" * 9_000_000, line(user="\udcff"), line(user="a\x85b"), "y" * 5_000_000, line())
    events = read_log(path, identifiers=("ip", "user"))
    assert len(events) == 4
    assert events.identifiers["user"].tolist() == [None, r"user:\xff", "user:a\x85b", None]
    assert [each.line for each in events.bad_lines] == [2, 5]
    assert all(len(each.text) == 1000 for each in events.bad_lines)


def test_a_log_without_an_end_of_line_and_an_empty_one(log):
    assert len(read_log(log(line(), line(), end="\r\n"))) == 2
    assert len(read_log(log(line() + "\n\n" + line(), end=""))) == 2
    assert len(read_log(log())) == 0
    assert len(read_log(log(), "csv")) == 0


def test_progress_is_shown(log, capsys):
    assert len(read_log(log(line(), line()), progress=True)) == 2
    assert "reading: 100%" in capsys.readouterr().err


GROUPS = st.lists(st.sampled_from(["0", "1", "db8", "00a", "FFFF", "2001", "f" * 5]), max_size=8).map(
    ":".join
)
ADDRESSES = st.builds("{}{}{}".format, GROUPS, st.sampled_from(["::", ":", "", ":::", "::1.2.3.4"]), GROUPS)


@given(st.lists(ADDRESSES, min_size=1, max_size=20), st.sampled_from([32, 56, 64, 65, 128]))
def test_every_way_to_write_an_address_counts_as_in_web_applications(tmp_path_factory, addresses, prefix):
    path = tmp_path_factory.mktemp("addresses") / "a.csv"
    path.write_text("\n".join(["time,ip", *(f"1,{each}" for each in addresses), "1,x"]), encoding="utf-8")
    events = read_log(path, ipv6_prefix=prefix)
    counted = [each if prefix == 128 else grouped(each, prefix) for each in addresses if each]
    assert events.identifiers["ip"].tolist() == [f"ip:{each}" for each in [*counted, "x"]]
