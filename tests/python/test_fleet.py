"""benchmarks/fleet.py: a model of fleets by the rules of leases, and real processes beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from overlimit import FixedWindow, LeakyBucket, SlidingWindow, SlidingWindowCounter, TokenBucket

ROOT = Path(__file__).parents[2]
LIMITS = [
    FixedWindow(400, per=0.5),
    SlidingWindow(400, per=0.5, precision=0.05),
    SlidingWindowCounter(400, per=0.5),
    TokenBucket(400, per=0.5, refill="interval"),
    LeakyBucket(400, per=0.5, capacity=0),
    (FixedWindow(400, per=0.5), SlidingWindow(1000, per=5, precision=0.1)),
]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def simulated(limit=None, *, rate=3000, seconds=2.0, keys=1, **options):
    from fleets import model, traffic

    limits = limit if isinstance(limit, tuple) else (limit or FixedWindow(10**6, per=3600),)
    fleet = model.Fleet(limits, **options)
    return model.simulated(fleet, traffic.Traffic(rate, seconds, keys))


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: getattr(limit, "algorithm", "two limits"))
def test_leases_admit_what_strict_calls_do_and_ask_less(limit):
    strict, leasing = (simulated(limit, hosts=2, workers=2, lease=lease) for lease in (0.0, 0.05))
    assert strict.commands == strict.decisions == leasing.decisions
    assert leasing.commands < strict.commands / 4
    assert (strict.over, leasing.over) == (0, 0)
    assert leasing.admitted >= 0.95 * strict.admitted
    assert leasing.sources["lease"] > 0
    assert leasing.p50 < strict.p50


def test_a_hot_key_costs_two_commands_a_lease_and_process():
    outcome = simulated(workers=4, lease=0.5)
    assert outcome.commands <= 2 * 4 * 2.0 / (0.5 / 1.125) + 4 * 6
    assert outcome.held > 0
    assert outcome.lapsed == 0


def test_processes_of_a_host_lease_as_one():
    alone, together = (simulated(workers=4, lease=0.1, per_host=each) for each in (False, True))
    assert together.commands < alone.commands / 2


def test_rare_keys_are_asked_for():
    outcome = simulated(keys=10_000, workers=4, lease=0.05)
    assert outcome.per_decision > 0.7


def test_refusals_are_believed_for_a_while():
    floods = [simulated(FixedWindow(9, per=3600), max_stale=stale) for stale in (0.0, 1.0)]
    assert [outcome.admitted for outcome in floods] == [9, 9]
    assert floods[0].commands == floods[0].decisions
    assert floods[1].commands <= 9 + 4 / 3 * 2.0 + 2


def test_a_failover_loses_what_the_replica_has_not_been_told():
    outcome = simulated(FixedWindow(3000, per=3600), failovers=1, lag=0.5, down=0.1)
    assert outcome.sources["failed"] > 0
    assert 0 < outcome.over < 3000 * 0.6
    assert simulated(FixedWindow(3000, per=3600), failovers=1, down=0.1).over == 0


def test_a_process_that_dies_loses_what_it_holds():
    outcome = simulated(workers=2, lease=0.5, deaths=3)
    assert outcome.lapsed > 0
    assert outcome.over == 0
    assert simulated(workers=2, lease=0.5, deaths=3, per_host=True).lapsed == 0


def test_a_bucket_that_holds_what_is_leased_is_not_modelled():
    with pytest.raises(ValueError, match="holds what is leased"):
        simulated(TokenBucket(100, per=1))


def test_calls_come_at_the_rate_that_is_asked_for():
    from fleets.traffic import Traffic

    steady, bursts = (Traffic(10_000, 10.0, 50, burst=burst).arrivals(4) for burst in (1.0, 5.0))
    for arrivals in (steady, bursts):
        assert len(arrivals) == pytest.approx(100_000, rel=0.05)
        assert {each.process for each in arrivals} == set(range(4))
    in_bursts = sum(each.time % 1.0 < 0.1 for each in bursts)
    assert in_bursts == pytest.approx(len(bursts) * 0.5 / 1.4, rel=0.05)
    first = sum(each.identifier == "user:0" for each in steady)
    assert first == pytest.approx(2 * sum(each.identifier == "user:1" for each in steady), rel=0.1)


def test_real_processes_make_the_same_calls(redis_server):
    from fleets import model, real, traffic

    fleet = model.Fleet((FixedWindow(10**6, per=3600),), workers=2, lease=0.2)
    speed = real.measured_speed(str(redis_server.socket_path))
    found = real.compared("hot", fleet, traffic.Traffic(1000, 0.5), str(redis_server.socket_path), speed)
    assert found.real.decisions == found.model.decisions == found.real.admitted == found.model.admitted
    assert 0 < found.model.commands < found.model.decisions / 4
    assert 0 < found.real.commands < found.real.decisions
    assert found.told()["differences"].keys() == {"commands", "admitted"}


@pytest.mark.prove
def test_the_guide_shows_what_the_model_finds(tmp_path):
    import fleet

    guide = (ROOT / "docs/guides/fewer_commands.md").read_text(encoding="utf-8")
    (options,) = set(re.findall(r"`python benchmarks/fleet.py (simulate [^`]*)`", guide))
    rows = re.findall(r"^\|[^|]*\| `(--[^`]*)` \| (.*) \|$", guide, re.M)
    assert len(rows) >= 9
    loads = []
    for own, cells in rows:
        assert fleet.main([*options.split(), *own.split(), "--json", str(tmp_path / "found.json")]) == 0
        found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
        strict, leasing = found["strict"], found["fleet"]
        share = leasing["admitted"] / strict["admitted"]
        shown = f"{leasing['commands_per_second']:,.0f} | {leasing['load']:.1%} | {share:.1%}"
        assert (own, cells, leasing["over"]) == (own, f"{shown} | {leasing['held']:,.0f}", 0)
        loads.append(f"{leasing['load']:.0%}".replace("%", " %"))
    assert [load for load in (*loads[:4], loads[5]) if load not in guide] == []


def test_the_command_says_what_is_asked_and_admitted(tmp_path, capsys):
    import fleet

    words = "simulate --seconds 1 --rate 2000 --identifiers 5 --command-us 100"
    assert fleet.main([*words.split(), "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["strict"]["commands_per_decision"] == 1
    assert found["strict"]["load"] == pytest.approx(found["strict"]["commands"] * 100e-6)
    assert found["fleet"]["commands"] < found["strict"]["commands"]
    shown = capsys.readouterr().out
    assert f"{found['fleet']['decisions']:,}" in shown
    assert "Nothing is leased" not in shown


def test_the_command_says_why_nothing_is_leased_without_a_word_of_its_own_limiters(capsys, caplog):
    import fleet

    assert fleet.main(["simulate", "--seconds", "0.1", "--rate", "100", "--limit", "4"]) == 0
    assert capsys.readouterr().out.endswith("\nNothing is leased: a limit grants less than 5 at once.\n")
    assert caplog.records == []


def test_the_help_explains_every_row(capsys):
    import fleet

    with pytest.raises(SystemExit, match="0"):
        fleet.main(["simulate", "--help"])
    _, explained = capsys.readouterr().out.split("the rows of the table:")
    for row in fleet.ROWS:
        assert re.search(rf"^  {re.escape(row.name)} {{2,}}\w", explained, re.M)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--hosts 0", "--hosts: takes a whole number from 1 to 1,000, not '0'"),
        ("--identifiers -3", "--identifiers: takes a whole number from 1 to 10,000,000, not '-3'"),
        ("--identifiers 10000001", "--identifiers: takes a whole number from 1 to 10,000,000"),
        ("--workers 1.5", "--workers: takes a whole number from 1 to 1,000, not '1.5'"),
        ("--hosts 101 --workers 1000", "--hosts and --workers: take at most 100,000 processes, not 101,000"),
        ("--deaths -1", "--deaths: takes a whole number from 0 to 100,000, not '-1'"),
        ("--failovers 1001", "--failovers: takes a whole number from 0 to 1,000, not '1001'"),
        ("--rate 0", "--rate: takes a number above 0, at most 10,000,000, not '0'"),
        ("--rate inf", "--rate: takes a number above 0, at most 10,000,000, not 'inf'"),
        ("--rate 1e6 --seconds 11", "--rate for --seconds: takes at most 10,000,000 calls, not 11,000,000"),
        ("--seconds nan", "--seconds: takes a number above 0, at most 86,400, not 'nan'"),
        ("--per -1", "--per: takes a number greater than 0, not '-1'"),
        ("--command-us inf", "--command-us: takes a number above 0, at most 1,000,000, not 'inf'"),
        ("--zipf nan", "--zipf: takes a number from 0 to 100, not 'nan'"),
        ("--burst -1", "--burst: takes a number from 0 to 1,000, not '-1'"),
        ("--round-trip 1e300", "--round-trip: takes a number from 0 to 60, not '1e300'"),
        ("--lag -1", "--lag: takes a number from 0 to 3,600, not '-1'"),
        ("--lease 11", "lease"),
        ("--max-stale 61", "max_stale"),
        ("--per 1e-9", "per"),
        ("--limit 9 --per 1 --per 2", "each --limit takes a --per: 1 and 2 are given"),
        ("--json /nowhere/found.json", "--json: takes a file in a folder that exists"),
    ],
)
def test_an_odd_number_is_refused_before_anything_runs(words, message, capsys, monkeypatch):
    import fleet

    monkeypatch.setattr(fleet, "simulated", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match="2"):
        fleet.main(["simulate", *words.split()])
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("benchmarks/fleet.py simulate: error: ")
    assert message in error
