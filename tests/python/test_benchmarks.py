"""benchmarks/run.py measures what it says, and the site shows what was measured."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
RUN = ROOT / "benchmarks" / "run.py"
DOCS = ROOT / "docs"
PEERS = ("d[k] += 1", "overlimit", "limits", "throttled-py", "pyrate-limiter")


def run(*words: object) -> str:
    command = [sys.executable, str(RUN), *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return the folder of a quick run of two parts, with its JSON, figures and tables."""
    folder = tmp_path_factory.mktemp("benchmarks")
    tables = run(
        "--quick", "--tables", "--json", folder / "results.json", "--figures", folder, "memory", "threads"
    )
    (folder / "tables.md").write_text(tables, encoding="utf-8")
    return folder


def test_every_contestant_of_a_part_is_measured(measured):
    found = json.loads((measured / "results.json").read_text(encoding="utf-8"))
    records = found["records"]
    assert {record["part"] for record in records} == {"memory", "threads"}
    for part, title in (("memory", "One hit after the other"), ("threads", "Hits in memory by threads")):
        names = {record["name"] for record in records if (record["part"], record["title"]) == (part, title)}
        expected = PEERS if part == "memory" else PEERS[:4]
        assert {peer for peer in PEERS if any(name.startswith(peer) for name in names)} == set(expected)
    for record in records:
        lower, upper = record["quartiles"]
        assert 0 < lower <= record["median"] <= upper
        assert record["ratio"] > 0
        assert (record["x"] is None) == (record["axis"] == "")
    facts = {"processor", "cores", "python", "compiler", "redis_server", "overlimit", "date", "peers"}
    assert facts <= found["machine"].keys()


def test_the_first_contestant_is_what_the_others_are_compared_with(measured):
    records = json.loads((measured / "results.json").read_text(encoding="utf-8"))["records"]
    floors = {}
    for record in records:
        floors.setdefault((record["part"], record["title"], record["x"]), record)
    assert {floor["ratio"] for floor in floors.values()} == {1.0}
    assert len(floors) < len(records) / 2


def test_figures_and_tables_are_the_same_when_they_are_made_again(measured, tmp_path):
    again = run("--from", measured / "results.json", "--tables", "--figures", tmp_path)
    assert again == (measured / "tables.md").read_text(encoding="utf-8")
    figures = {path.name: path.read_text(encoding="utf-8") for path in measured.glob("*.svg")}
    assert figures.keys() >= {"memory.svg", "threads-hits-in-memory-by-threads.svg"}
    assert figures == {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.svg")}


def test_a_decision_is_counted_on_the_server_and_timed_from_afar():
    tables = run("--quick", "--tables", "server", "latency")
    rows = dict(re.findall(r"^\| (.+?) \| ([\d.,]+) \|", tables, re.M))
    thousands = {
        name: float(rows[name].replace(",", "")) for name in ("INCR", "overlimit, three sliding windows")
    }
    assert 1 < thousands["INCR"] < thousands["overlimit, three sliding windows"]
    assert len([name for name in rows if name.startswith("over_limit")]) == 3
    assert "**A hit with 0.5 ms added**" in tables


@pytest.mark.prove
def test_commands_of_leases_are_counted(tmp_path):
    run("--quick", "--json", tmp_path / "results.json", "leases")
    records = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["records"]
    found = {
        (record["title"], record["name"]): record["median"] for record in records if record["x"] in (None, 2)
    }
    assert found["Commands of a hot key", "asking for each"] == 1000
    assert found["Commands of a hot key", "leases of 500 ms"] < 100
    assert found["Commands of a flood of refusals", "max_stale of 500 ms"] < 100
    assert {"a hit in memory", "a hit of a lease", "a refusal that is known"} <= {name for _, name in found}


def test_published_scripts_answer_as_is_told_of_them(redis_server):
    with mock.patch.object(sys, "path", [str(ROOT / "benchmarks"), *sys.path]):
        from parts import published
    name = secrets.token_hex(6)

    def asked(script: str, keys: list[str], *words: object) -> list[object]:
        return redis_server.ask("EVAL", script, len(keys), *(f"{name}:{key}" for key in keys), *words)

    bucket = (published.WAITING_BUCKET, ["waiting"], 100, 2, 1_000_000)
    assert [asked(*bucket, permits) for permits in (50, 40, 40, 101)] == [0, 0, 15, -1]
    assert [asked(published.COUNTER, ["counter"], 2, 60_000) for _ in range(3)] == [1, 2, -1]
    assert [asked(published.PERIOD, ["period"], 2, 60) for _ in range(3)] == [1, 2, 0]
    interval = (published.INTERVAL_BUCKET, ["tokens", "filled"], 2, 1, 1000)
    assert [asked(*interval, now) for now in (0, 1, 2, 999, 1000, 1001)] == [1, 0, -1, -1, 0, -1]
    periods = (published.SUB_PERIODS, ["periods"], 2, 1000)
    assert [asked(*periods, now)[0] for now in (0, 9999, 9999, 10_000)] == [0, 0, 1, 0]
    tokens = (published.TOKENS, ["t", "f"], 1, 2)
    assert [asked(*tokens, now, 1) for now in (1000, 1000, 1000, 1001)] == [1, 1, None, 1]
    blocks = (published.SUB_BUCKETS, ["a", "b"], "[[60,3,6],[600,2,60]]", 1)
    assert [asked(*blocks) for _ in range(3)] == [0, 0, 1]


def test_the_site_shows_every_table_and_figure_of_the_run_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_site")
    import measurements

    (tmp_path / "benchmarks").mkdir()
    kept = shutil.copy(DOCS / "benchmarks" / "results.json", tmp_path / "benchmarks")
    text = [(DOCS / "performance.md").read_text(encoding="utf-8")]
    measurements.show_results(SimpleNamespace(srcdir=tmp_path), "performance", text)
    rows = {line for line in run("--from", kept, "--tables").splitlines() if line.startswith(("|", "**"))}
    assert len(rows) >= 100
    assert sorted(rows - set(text[0].splitlines())) == []
    shown = set(re.findall(r"\]\(benchmarks/([\w-]+\.svg)\)", text[0]))
    assert len(shown) >= 15
    assert shown == {path.name for path in (tmp_path / "benchmarks").glob("*.svg")}
