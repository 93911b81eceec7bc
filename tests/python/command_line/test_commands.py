"""docs/reference/command_line.md: what the command prints, and how it ends."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from overlimit._messages.texts import percent
from overlimit.command_line import main
from programs import run_without

LOG = str(Path(__file__).parents[3] / "examples" / "shop_day.log.gz")
LIMITS = "30/minute; 200/hour"

COMBINED = '{} - - [02/Mar/2026:00:00:{:02} +0000] "GET / HTTP/1.1" 200 5 "-" "-"'

RUN = """
import runpy, sys
sys.argv = ["overlimit", *{arguments!r}]
runpy.run_module("overlimit", run_name="__main__")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: another one would have to load pandas first."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["overlimit", *arguments]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return subprocess.CompletedProcess(arguments, ended.value.code, written_to(output), written_to(errors))


def written_to(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()


def printed(*arguments: str) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def json_of(*arguments: str) -> dict[str, Any]:
    return json.loads(printed(*arguments, "--json"))


def csv_of(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed(*arguments, "--csv"))))


def refused(code: int, *arguments: str) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def write_log(tmp_path):
    def write(*lines: str) -> str:
        path = tmp_path / "access.log"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(scope="module")
def replayed():
    """What the library says of the log."""
    from overlimit.simulation import read_log, replay

    return replay(read_log(LOG), LIMITS)


def test_replay_prints_the_limits_and_whom_they_hit(replayed):
    lines = printed("replay", LOG, "--limits", LIMITS, "--top", "2").splitlines()
    assert lines[0] == f"12,000 requests: {replayed.refused} refused ({replayed.refused_share:.2%})"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["limit", "30 per 1 minute", "200 per 1 hour"]
    assert lines[8].split() == ["ip:198.51.100.77", "720", "200", "520", "3,227", "s"]
    assert len(lines) == 10


def test_times_are_those_of_a_zone():
    command = ["replay", LOG, "--limits", LIMITS, "--table", "times", "--timezone", "Europe/Berlin"]
    days = csv_of(*command, "--every", "day")
    assert [day["time"] for day in days] == ["2026-03-02T00:00:00+01:00", "2026-03-03T00:00:00+01:00"]
    assert sum(int(day["sent"]) for day in days) == 12_000
    part = ["--every", "7200", "--since", "2026-03-02T12:00", "--until", "2026-03-02T18:00"]
    rows = csv_of(*command, *part)
    assert [row["time"][11:] for row in rows] == ["12:00:00+01:00", "14:00:00+01:00", "16:00:00+01:00"]
    assert "--timezone" in printed("suggest", "--help")


def test_replay_prints_from_when_to_when_the_log_is(replayed):
    assert printed("replay", LOG, "--limits", LIMITS).splitlines()[1] == (
        "2026-03-02 00:00:04 to 2026-03-02 23:59:54 UTC"
    )
    options = ["--limits", LIMITS, "--timezone", "Europe/Berlin"]
    assert "2026-03-02 01:00:04 to 2026-03-03 00:59:54 Europe/Berlin\n" in printed("replay", LOG, *options)
    found = json_of("replay", LOG, *options)
    assert (found["first"], found["last"]) == ("2026-03-02T01:00:04+01:00", "2026-03-03T00:59:54+01:00")


def test_replay_prints_json(replayed):
    found = json_of("replay", LOG, "--limits", "30/minute", "--limits", "200/hour")
    assert (found["events"], found["refused"], found["bad_lines"]) == (12_000, replayed.refused, 0)
    assert [row["refused"] for row in found["limits"]] == replayed.summary()["refused"].to_list()
    assert found["identifiers"][0]["identifier"] == "ip:198.51.100.77"
    assert len(found["identifiers"]) == 20
    assert [row["refused"] for row in found["times"]] == replayed.by_time(3600)["refused"].to_list()
    assert found["times"][0]["time"] == "2026-03-02T00:00:00+00:00"
    kinds = [type(found["limits"][0][name]) for name in ("limit", "refused", "least_left")]
    assert kinds == [str, int, float]


@pytest.mark.parametrize(
    ("table", "index", "rows"),
    [("limits", "limit", 2), ("identifiers", "identifier", 20), ("times", "time", 24)],
)
def test_replay_prints_each_table_as_csv(table, index, rows):
    lines = csv_of("replay", LOG, "--limits", LIMITS, "--table", table)
    assert len(lines) == rows
    assert next(iter(lines[0])) == index
    assert sum(int(line["refused"]) for line in lines) == 520


def test_what_is_never_is_null(write_log):
    log = write_log(COMBINED.format("203.0.113.7", 0))
    found = json_of("replay", log, "--limits", "1/minute", "--cost", "2")
    assert found["refused"] == 1
    assert found["limits"][0]["longest_retry_after"] is None
    assert "never" in printed("replay", log, "--limits", "1/minute", "--cost", "2")


def test_a_lock_is_a_limit_more(write_log):
    log = write_log(*(COMBINED.format("203.0.113.7", second) for second in (0, 1, 2, 40)))
    found = json_of("replay", log, "--limits", "1/10 seconds", "--lock", "60")
    assert [row["limit"] for row in found["limits"]] == ["1 per 10 seconds", "lock"]
    assert found["refused"] == 3


def test_each_lock_is_the_next_level(write_log):
    log = write_log(*(COMBINED.format("203.0.113.7", second) for second in (0, 1, 7, 8, 59)))
    found = json_of("replay", log, "--limits", "1/2 seconds", "--lock", "5", "--lock", "30")
    assert (found["refused"], found["identifiers"][0]["longest_lock_out"]) == (2, 30)


def test_limits_are_of_the_algorithm_that_was_asked_for(replayed):
    from overlimit import Limiter
    from overlimit.simulation import replay

    fixed = Limiter("30/minute", algorithm="fixed_window")
    found = json_of("replay", LOG, "--limits", "30/minute", "--algorithm", "fixed_window")
    assert found["refused"] == replay(replayed.events, fixed).refused
    compared = json_of("compare", LOG, "--policy", "a=30/minute", "--algorithm", "fixed_window")
    assert compared["policies"][0]["refused_events"] == found["refused_share"]


def compared_in_python(events, policies):
    from overlimit.simulation import compare

    return compare(events, policies)


def test_compare_prints_what_each_policy_refuses_and_how_far_they_agree(replayed):
    policies = {"today": "30/minute", "new": "10/second; 100/hour"}
    command = ["compare", LOG, *(f"--policy={name}={limits}" for name, limits in policies.items())]
    expected = compared_in_python(replayed.events, policies)
    lines = printed(*command).splitlines()
    assert lines[0] == "12,000 requests"
    assert lines[3].split("  ")[:2] == ["policy", "refused events"]
    today = expected.effects["today"]
    assert lines[4].split()[:2] == ["today", percent(today.refused_events)]
    assert lines[-2].split() == ["a", "b", "both", "only", "a", "only", "b"]
    found = json_of(*command)
    assert found["agreement"] == expected.agreement.to_dict("records")
    assert found["policies"][0]["worst_hit"] == list(today.worst_hit)
    shares = [float(row["refused_events"]) for row in csv_of(*command)]
    assert shares == expected.to_pandas()["refused_events"].tolist()
    few = printed(*command, "--policy", "c=1/minute", "--policy", "d=2/minute")
    assert "only a" not in few


def test_whoever_is_spared_is_not_refused_by_what_is_suggested(replayed):
    from overlimit.simulation import suggest

    command = ["suggest", LOG, "--limits", "{}/minute", "--between", "1", "100", "--refuse-at-most", "1"]
    spared = ["ip:203.0.113.9", "ip:192.0.2.13"]
    found = json_of(*command, *(f"--spare={name}" for name in spared))
    expected = suggest(replayed.events, "{}/minute".format, (1, 100), 1, spare=spared)
    assert (found["value"], found["message"]) == (expected.value, expected.message)
    assert found["tried"][0]["refused_spared"] > 0


def test_the_log_is_read_as_the_options_say(write_log):
    log = write_log("7;alice;2", "8;bob;1", "9;alice;2")
    options = ["--format", "csv", "--columns", "at,user,units", "--delimiter", ";", "--time", "at"]
    options += ["--cost", "units", "--by", "who=user", "--since", "1970-01-01T00:00:08"]
    found = json_of("replay", log, *options, "--limits", "1/minute")
    assert [(row["identifier"], row["refused"]) for row in found["identifiers"]] == [
        ("who:alice", 1),
        ("who:bob", 0),
    ]


def test_lines_may_be_read_by_a_pattern(write_log):
    log = write_log("5 alice", "6 alice")
    pattern = r"(?P<time>\d+) (?P<user>\w+)"
    found = printed("replay", log, "--pattern", pattern, "--by", "user", "--limits", "1/hour")
    assert found.startswith("2 requests: 1 refused (50.00%)")


@pytest.mark.check
def test_the_log_may_come_from_the_standard_input(write_log):
    log = write_log(*[COMBINED.format("203.0.113.7", second) for second in range(3)])
    command = [sys.executable, "-m", "overlimit", "replay", "-", "--limits", "1/minute"]
    done = subprocess.run(command, input=Path(log).read_text(), capture_output=True, text=True, check=False)
    assert "3 requests: 2 refused" in done.stdout


def test_whoever_is_refused_is_named_in_whatever_column(write_log):
    log = write_log(
        *[json.dumps({"time": second, "ip": f"10.0.0.{second}", "user": "eve"}) for second in range(20)]
    )
    options = ["--format", "json", "--limits", "5/minute", "--by", "ip", "--by", "user"]
    for by in (options, [*options[:-4], "--by", "user", "--by", "ip"]):
        rows = json_of("replay", log, *by)["identifiers"]
        assert (rows[0]["identifier"], rows[0]["sent"], rows[0]["refused"]) == ("user:eve", 20, 15)
        assert len(rows) == 20  # of 21, by --top
    assert "user:eve" in printed("replay", log, "--top", "1", *options)


def test_names_are_printed_as_they_are_for_programs(write_log):
    names = ["ab\x1b[31mc", "abc", "\ud800"]
    log = write_log(*[json.dumps({"time": 1, "ip": name}) for name in names])
    options = ["--format", "json", "--limits", "1/hour"]
    assert [row["identifier"] for row in csv_of("replay", log, *options)] == [
        "ip:ab\x1b[31mc",
        "ip:abc",
        r"ip:\ud800",
    ]
    table = printed("replay", log, *options)
    assert r"ip:ab\x1b[31mc" in table
    assert r"ip:\ud800" in table


@pytest.mark.check
@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_names_are_printed_in_any_encoding(write_log, form):
    log = write_log(json.dumps({"time": 1, "ip": "caf\xe9 \u202e"}))
    done = subprocess.run(
        [sys.executable, "-m", "overlimit", "replay", log, "--format", "json", "--limits", "1/hour", *form],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"caf(é|\\xe9|\\u00e9) ", done.stdout)


@pytest.mark.check
@pytest.mark.parametrize("to", ["/dev/full", "&-"])
def test_an_output_that_cannot_be_written_is_said_in_a_line(write_log, to):
    log = write_log(COMBINED.format("203.0.113.7", 0))
    command = f"{sys.executable} -m overlimit replay {log} --limits 1/minute --json >{to}"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(
        "Error: (cannot write the output: .*No space.*|there is no standard output.*)\n", done.stderr
    )


@pytest.mark.check
@pytest.mark.parametrize("command", ["--help", "replay {log} --limits 1/minute", "shm list --json"])
def test_a_pipe_that_nobody_reads_ends_with_2_in_silence(write_log, command):
    arguments = command.format(log=write_log(COMBINED.format("203.0.113.7", 0))).split()
    unread, written = os.pipe()
    os.close(unread)
    with os.fdopen(written, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "overlimit", *arguments],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "")


def test_one_request_is_one(write_log):
    log = write_log(COMBINED.format("203.0.113.7", 0))
    assert "1 request: 0 refused" in printed("replay", log, "--limits", "1/minute")


def test_a_bad_line_is_not_shown_in_full(write_log):
    log = write_log("x" * 5000, COMBINED.format("203.0.113.7", 0))
    shown = run("replay", log, "--limits", "1/minute").stderr.splitlines()[1]
    assert shown.endswith("x" * 100 + "...")
    assert len(shown) < 400


def test_times_in_another_unit_are_hinted_at(write_log):
    log = write_log(json.dumps({"time": 1_772_409_600_000, "ip": "10.0.0.1"}))
    said = refused(1, "replay", log, "--format", "json", "--limits", "1/minute")
    assert "times look like milliseconds: --unit ms" in said
    log = write_log(json.dumps({"time": 1_772_409_600, "ip": "10.0.0.1"}))
    done = run("replay", log, "--format", "json", "--unit", "ms", "--limits", "1/minute")
    assert (done.returncode, done.stderr) == (
        0,
        "Warning: with --unit ms this log is from 1970-01-21 to 1970-01-21: did you mean --unit s?\n",
    )


def test_several_logs_and_a_pattern_are_read_as_one(write_log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(COMBINED.format("203.0.113.7", 0))
    (tmp_path / "access.log.1").write_text(COMBINED.format("203.0.113.7", 1) + "\n", encoding="utf-8")
    for logs in (["access.log*"], ["access.log", "access.log.1"]):
        found = printed("replay", *logs, "--limits", "1/minute")
        assert found.startswith("2 requests: 1 refused")


def test_bad_lines_are_reported_on_stderr(write_log):
    bad = [f"\x1b[31mno. {k}" for k in range(12)]
    done = run("replay", write_log(*bad, COMBINED.format("203.0.113.7", 0)), "--limits", "1/minute", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["bad_lines"] == 12
    lines = done.stderr.splitlines()
    assert lines[0] == "12 lines could not be read:"
    assert lines[1].endswith(r"access.log:1: it is not a line of this format: \x1b[31mno. 0")
    assert (lines[-1], len(lines)) == ("  and 2 more", 12)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("\x1b[31m[bold]evil[/bold]\u202e", r"\x1b[31m[bold]evil[/bold]\u202e"), ("x" * 300, "x" * 300 + " ")],
    ids=["hostile", "long"],
)
def test_an_identifier_in_a_pipe_is_shown_in_full_and_neither_colours_nor_marks_up(write_log, name, shown):
    options = ["--format", "csv", "--columns", "time,user", "--by", "user", "--limits", "1/hour"]
    assert f"user:{shown}" in printed("replay", write_log(f"5,{name}"), *options)


def test_suggest_prints_the_limit_and_what_was_tried():
    lines = printed("suggest", LOG, "--limits", "{}/minute", "--between", "10", "1000").splitlines()
    assert lines[0] == "48/minute"
    assert lines[1].startswith("48 is the smallest value that refuses at most 0.1% of the identifiers")
    assert ["48", "0.00%", "0.00%"] in [line.split() for line in lines]


def test_suggest_says_whose_share_is_shown():
    command = ["suggest", LOG, "--limits", "{}/minute", "--between", "10", "1000"]
    others = printed(*command, "--stop", "ip:198.51.100.77")
    assert "value  refused events of others  refused identifiers of others" in others
    assert "refused events of ip:198.51.100.77" in printed(*command, "--among", "ip:198.51.100.77")
    assert " of " not in printed(*command).splitlines()[3]
    both = ["--stop", "ip:198.51.100.77", "--spare", "ip:198.51.100.77"]
    assert "stop and spare both name ip:198.51.100.77" in refused(2, *command, *both)


def test_lines_of_nobody_are_told_as_such(write_log):
    def told_of(*lines):
        options = ["--format", "csv", "--by", "user"]
        return run("read", write_log("time,user", *lines), *options).stderr.partition(":")[0]

    assert told_of("5,ann", "6,", "7,") == "2 lines have no user (--skip-missing leaves them out)"
    assert told_of("5,ann", "6,") == "1 line has no user (--skip-missing leaves it out)"
    mixed = "2 lines could not be read (--skip-missing leaves out those without an identifier)"
    assert told_of("5,ann", "6,", "x,ann") == mixed
    assert told_of("5,ann", "x,ann") == "1 line could not be read"


def test_suggest_prints_json_and_csv():
    command = ["suggest", LOG, "--limits", "{}/minute", "--between", "10", "1000"]
    found = json_of(*command)
    assert (found["value"], found["limits"]) == (48, "48/minute")
    assert [int(row["value"]) for row in csv_of(*command)] == [row["value"] for row in found["tried"]]


def test_suggest_takes_the_share_and_what_it_is_of():
    command = ["suggest", LOG, "--limits", "{}/minute", "--limits", "{}/hour", "--between", "1", "1000"]
    few = json_of(*command, "--of", "events", "--refuse-at-most", "0.05")
    assert few["share"] <= 0.05 < few["next_smaller"]
    assert few["limits"] == f"{few['value']}/minute; {few['value']}/hour"


def test_no_value_to_suggest_is_exit_code_1():
    command = ["suggest", LOG, "--limits", "{}/minute", "--between", "1", "10"]
    assert "no value from 1 to 10 refuses" in refused(1, *command)
    done = run(*command, "--json")
    assert (done.returncode, json.loads(done.stdout)["value"]) == (1, None)


@pytest.mark.parametrize("lines", [[], ["no log"], ["", " "]])
def test_no_readable_line_is_exit_code_1(write_log, lines):
    assert "no request to replay" in refused(1, "replay", write_log(*lines), "--limits", "1/minute")
    options = ["--limits", "{}/minute", "--between", "1", "5"]
    assert "no request to replay" in refused(1, "suggest", write_log(*lines), *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("replay {log}", "Missing option '--limits'"),
        ("replay --limits 1/minute", "Missing argument 'LOG...'"),
        ("replay {log} --limits 1/minut", "'minut' is not a unit: write 'minute'"),
        ("replay {log} --limits 1/minute --by nobody", "there is no column 'nobody'"),
        ("read {log} --save /no/such/folder/x.parquet", "the folder '/no/such/folder' does not exist"),
        ("replay {log} --limits 1/minute --pattern (", "'--pattern': this is no"),
        ("replay {log} --limits 1/minute --where 'status >'", "invalid syntax"),
        ("replay {log} --limits 1/minute --where 'status + 1'", "as in 'status == 404'"),
        ("replay {log} --limits 1/minute --cost -1", "'--cost': a cost is a whole number"),
        ("replay {log} --limits 1/minute --every 0", "Error: --every must be at least one micro"),
        ("replay {log} --limits 1/minute --every dya", "Error: --every must be a duration, in seconds or"),
        (
            "replay {log} --limits 1/minute --timezone CEST",
            "Error: --timezone must be a name of the IANA database such as 'Europe/Berlin', not 'CEST'",
        ),
        ("replay {log} --limits 1/minute --since noon", "'--since': a time is written as"),
        ("replay {log} --limits 1/minute --lock -1", "'--lock': -1.0 is not in the range"),
        ("replay {log} --limits 1/minute --json --csv", "--json and --csv exclude each other"),
        ("replay {log} --limits 1/minute --algorithm fixed", "'--algorithm': 'fixed' is not one of"),
        ("compare {log} --policy 5/minute", "written as NAME=LIMITS, as today=100/minute, not 5/minute"),
        ("compare {log} --policy a=1/minute --policy a=2/minute", "there are two policies a"),
        ("compare missing.log --policy a=1/minut", "is not a unit"),
        ("compare {log}", "Missing option '--policy'"),
        ("replay {log} --limits 1/minute --every day", "--every is for the table of times: add"),
        ("replay {log} --limits 1/minute --every day --csv", "--every is for the table of"),
        ("replay {log} --limits 1/minute --top 3 --table limits", "--top is for the table"),
        ("replay {log} --limits 1/minute --delimiter ';'", "Error: --delimiter is for CSV files"),
        ("replay {log} --limits 1/minute --unit ms", "Error: --unit is for times that are"),
        (
            "replay {log} --limits 1/minute --format json --pattern .",
            "--pattern and --format exclude each other",
        ),
        ("replay {log} --limits 1/minute --ipv6-prefix 0", "Error: --ipv6-prefix must"),
        ("replay missing.log --limits 1/minute", "Error: missing.log: No such file or directory\n"),
        ("replay missing* --limits 1/minute", "missing*"),
        ("suggest {log} --limits 5/minute --between 1 9", "write {} where the number goes"),
        ("suggest {log} --limits {{}}/minute --between 9 1", "'--between': LOW must not be"),
        ("suggest {log} --limits {{}}/minute --between 1 9 --refuse-at-most 2", "'--refuse-at-most'"),
        (
            "suggest {log} --limits {{}}/minute --between 1 9 --spare 203.0.113.9",
            "Error: --spare: '203.0.113.9' is no identifier or label of these events; did you mean 'ip:2",
        ),
        (
            "suggest {log} --limits {{}}/minute --between 1 9 --spare nobody",
            "--spare: 'nobody' is no identifier or label of these events\n",
        ),
        ("elsewhere", "No such command 'elsewhere'"),
        ("replay missing.log --limits 1/minut", "is not a unit"),
        ("suggest missing.log --limits {{}}/minut --between 1 9", "is not a unit"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, message):
    assert message in refused(2, *shlex.split(arguments.format(log=LOG)))


def test_read_shows_what_is_in_a_log_and_why_lines_are_bad(write_log, tmp_path):
    log = write_log(*[COMBINED.format("203.0.113.7", second) for second in range(3)], "x", "y")
    done = run("read", log)
    assert done.returncode == 0
    assert done.stdout.startswith("3 requests\n2026-03-02 00:00:00 to 2026-03-02 00:00:02 UTC\n")
    assert re.search(r"^ip +1 +ip:203.0.113.7 +3$", done.stdout, re.M)
    assert re.search(r"^it is not a line of this format +2$", done.stdout, re.M)
    found = json.loads(run("read", log, "--json", "--save", str(tmp_path / "a.parquet")).stdout)
    assert (found["events"], found["bad_lines"]) == (3, 2)
    assert found["bad_line_reasons"] == {"it is not a line of this format": 2}
    assert json_of("read", str(tmp_path / "a.parquet"))["columns"] == found["columns"]
    saved = printed("replay", str(tmp_path / "a.parquet"), "--limits", "1/minute")
    assert saved == run("replay", log, "--limits", "1/minute").stdout


def test_times_without_an_offset_are_of_the_zone(tmp_path):
    log = tmp_path / "a.csv"
    log.write_text("time,ip\n2026-07-01T12:00,a\n2026-07-01T13:00,a\n", encoding="utf-8")
    options = ["--timezone", "Europe/Berlin", "--since", "2026-07-01T12:30"]
    assert json_of("read", str(log), *options)["first"] == "2026-07-01T13:00:00+02:00"


def test_strict_stops_at_the_first_bad_line(write_log):
    log = write_log(COMBINED.format("203.0.113.7", 0), "no log")
    assert "line 2" in refused(2, "replay", log, "--limits", "1/minute", "--strict")


def test_a_name_stands_for_one_column(write_log):
    log = write_log(COMBINED.format("203.0.113.7", 0))
    both = ["read", log, "--by", "ip", "--by", "ip=user"]
    assert "ip stands for two columns, ip and user: rename one of them, as in other=user" in refused(2, *both)
    assert printed("read", log, "--by", "ip", "--by", "ip") == printed("read", log)


def test_ctrl_c_while_it_is_imported_ends_it_like_later(monkeypatch):
    monkeypatch.setitem(sys.modules, "overlimit.command_line.program", Interrupting())
    with pytest.raises(SystemExit, match="130"):
        main()


class Interrupting:
    """A module that is interrupted while something is imported from it."""

    @property
    def run(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("package", ["click", "rich", "numpy", "pandas"])
def test_a_missing_package_is_named_in_a_line(package):
    done = run_without(package, RUN.format(arguments=["replay", LOG, "--limits", "1/minute"]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"needs {package}: pip install 'overlimit[cli]'" in done.stderr


@pytest.mark.check
def test_only_a_figure_needs_the_packages_of_notebooks(tmp_path):
    suggest = ["suggest", LOG, "--limits", "{}/minute", "--between", "40", "60"]
    draw = ["replay", LOG, "--limits", "1/minute", "--png", str(tmp_path / "a.png")]
    for arguments in (["replay", LOG, "--limits", LIMITS], suggest, draw):
        done = run_without("tqdm matplotlib ipywidgets", RUN.format(arguments=arguments))
        if arguments is draw:
            assert (done.returncode, done.stdout) == (2, "")
            needed = "Error: --png needs matplotlib: pip install 'overlimit[notebook]' brings it\n"
            assert done.stderr == needed
        else:
            assert (done.returncode, done.stdout) == (0, printed(*arguments))


def test_the_extra_has_what_the_command_needs():
    extras = {
        re.split(r"[>=;]", each)[0]
        for each in importlib.metadata.requires("overlimit")
        if re.search(r"extra == .cli.", each)
    }
    assert extras == {"click", "numpy", "pandas", "pyarrow", "rich", "tomlkit", "backports.zstd"}


def test_the_installed_command_is_the_same():
    script = Path(sys.executable).with_name("overlimit")
    for command in ([script], [sys.executable, "-m", "overlimit"]):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == printed("--help")


@pytest.mark.parametrize("command", ["compare", "replay", "suggest"])
def test_help_has_examples(command):
    shown = printed(command, "--help")
    assert shown.count(f"overlimit {command} access.log") >= 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "--limits", LIMITS],
        ["replay", "--limits", LIMITS, "--json"],
        ["compare", "--policy", "a=9/minute", "--csv"],
    ],
)
def test_a_figure_is_drawn_beside_what_is_printed(tmp_path, arguments):
    path = tmp_path / "log.png"
    command, *options = arguments
    assert printed(command, LOG, *options, "--png", str(path)) == printed(command, LOG, *options)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_written_ends_the_command(tmp_path):
    assert "missing" in refused(
        2, "replay", LOG, "--limits", LIMITS, "--png", str(tmp_path / "missing" / "a.png")
    )
