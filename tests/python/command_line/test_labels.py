"""Labels on the command line, and saved files: docs/reference/command_line.md."""

from __future__ import annotations

import pytest

from .test_commands import LIMITS, LOG, csv_of, json_of, printed, refused, run

SHOP = ["--label", "ip:198.51.100.77=scanner", "--label", "ip:203.0.113.9=warehouse"]


def test_labels_are_given_by_hand():
    found = json_of("replay", LOG, "--limits", LIMITS, *SHOP)
    assert {row["label"]: (row["sent"], row["refused"]) for row in found["labels"]} == {
        "": (10_080, 0),
        "scanner": (720, 520),
        "warehouse": (1_200, 0),
    }
    table = printed("replay", LOG, "--limits", LIMITS, "--table", "labels", *SHOP).splitlines()
    assert table[4].split()[:4] == ["scanner", "720", "200", "520"]
    rows = csv_of("compare", LOG, "--policy", f"a={LIMITS}", *SHOP)
    assert float(rows[0]["refused_events[scanner]"]) == pytest.approx(520 / 720)
    found = json_of(
        *("suggest", LOG, "--limits", "{}/minute", "--between", "1", "100", "--refuse-at-most", "1"),
        *("--spare", "warehouse", *SHOP),
    )
    assert "nothing of warehouse" in found["message"]
    from overlimit.simulation import read_log, replay

    events = read_log(LOG)
    warehouse = events[events["ip"] == "ip:203.0.113.9"]
    refused_by = [replay(warehouse, f"{found['value'] - fewer}/minute").refused for fewer in (0, 1)]
    assert refused_by[0] == 0 < refused_by[1]


def test_a_share_is_of_those_whom_one_does_not_want_to_stop():
    command = ["suggest", LOG, "--limits", "{}/minute", "--between", "1", "100", *SHOP]
    assert json_of(*command)["value"] == 48  # the scanner is among those to be spared
    for asked in (["--stop", "scanner"], ["--among", "warehouse", "--among", "shop", "--stop", "scanner"]):
        found = json_of(*command, *asked, "--label", "ip:192.0.2.13=shop")
        assert found["value"] == 7
        assert found["stopped"] == {"scanner": pytest.approx(559 / 720)}
    lines = printed(*command, "--stop", "scanner").splitlines()
    assert lines[1].endswith("; 7 would refuse 77.64% of what scanner sends")
    assert ["7", "0.00%", "0.00%", "77.64%"] in [line.split() for line in lines]
    assert "--stop: 'robot' is no identifier or label" in refused(2, *command, "--stop", "robot")


def test_labels_come_from_a_column_and_are_saved(tmp_path):
    log, saved = tmp_path / "a.csv", str(tmp_path / "a.parquet")
    log.write_text("time,ip,who\n1,a,office\n2,b,\n3,c=1,bot\n", encoding="utf-8")
    given = [str(log), "--labels", "who", "--label", "ip:b=people"]
    found = json_of("replay", *given, "--limits", "1/hour")
    assert [row["label"] for row in found["labels"]] == ["office", "people", "bot"]
    printed("read", *given, "--save", saved)
    assert json_of("replay", saved, "--limits", "1/hour") == found
    again = json_of("replay", saved, "--limits", "1/hour", "--label", "ip:c=1=crawler")
    assert [row["label"] for row in again["labels"]] == ["office", "people", "crawler"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "office"], "a label is written as NAME=LABEL"),
        (["--label", "ip:a=x", "--label", "ip:a=y"], "ip:a has two labels: x and y"),
        (["--label", "198.51.100.77=x"], "--label: '198.51.100.77' is no identifier of these events"),
        (["--label", "ip:192.0.2.254=x"], "--label: no event has any of these identifiers"),
        (["--labels", "plan"], "there is no column 'plan'"),
    ],
)
def test_labels_of_nobody_are_wrong(options, message):
    assert message in refused(2, "read", LOG, *options)


def test_a_label_of_nobody_among_others_is_a_warning():
    done = run("read", LOG, "--label", "ip:198.51.100.77=scanner", "--label", "ip:192.0.2.254=x", "--json")
    assert done.returncode == 0
    assert done.stderr == "Warning: --label: no event has 1 of the 2 identifiers: 'ip:192.0.2.254'\n"
    assert "labels" not in json_of("replay", LOG, "--limits", LIMITS)


def test_options_that_cannot_apply_to_a_saved_file_are_wrong(tmp_path):
    saved = str(tmp_path / "a.parquet")
    printed("read", LOG, "--save", saved)
    for option in (["--unit", "ms"], ["--format", "json"], ["--ipv6-prefix", "48"]):
        message = refused(2, "read", saved, *option)
        assert f"Error: {option[0]} cannot apply to a file of Events.save" in message
    message = refused(2, "read", saved, "--where", "status != 404")
    assert "--where 'status != 404'" in message
    assert "read the log itself" in message
    some = json_of("read", saved, "--where", "ip == 'ip:203.0.113.9'", "--skip-missing")
    assert some["events"] == 1200
