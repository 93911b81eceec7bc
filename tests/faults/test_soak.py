"""``make soak``: a short run of it, and that it would notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from soak.__main__ import Soak, parsed
from soak.targets import ProxiedServer
from soak.verdict import Resources, Verdict
from soak.worker import Tally

pytestmark = pytest.mark.xdist_group("storms")

TESTS = Path(__file__).parents[1]


def soak(*options):
    return subprocess.run(
        [sys.executable, "-m", "soak", *options],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@pytest.mark.check
@pytest.mark.parametrize(
    ("sentinels", "minutes"),
    [("--no-sentinels", 0.1), pytest.param("--sentinels", 0.25, marks=pytest.mark.prove)],
)
def test_a_short_run_is_as_promised(sentinels, minutes):
    done = soak("--minutes", str(minutes), "--seed", "5", sentinels)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert int(figures["decisions"].split()[0]) > 10
    injected, planned = (int(figures[name].split(":")[0]) for name in ("faults", "planned"))
    assert 1 <= planned <= injected
    assert figures["over-admitted"] == "0"


def test_it_says_what_it_can_be_told(capsys):
    with pytest.raises(SystemExit, match="0"):
        parsed(["--help"])
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--minutes", "--processes", "--sentinels", "--seed"))


class Flawed(ProxiedServer):
    """A target with a fault that never comes off."""

    seconds_per_fault = 1.0

    @property
    def faults(self):
        return {"scripts forgotten": lambda: self.server.ask("SCRIPT", "FLUSH"), "flawed": self._flawed}

    def _flawed(self):
        raise AssertionError("not so within 20 s")


class PastMending(Flawed):
    def mend(self):
        raise AssertionError("not well within 60 s")


class TestFaultsThatFail:
    @pytest.fixture
    def soaked(self):
        def run(kind):
            soak = Soak(parsed(["--minutes", "0.1", "--seed", "5", "--processes", "1"]), [kind])
            assert not soak.run()
            return soak.verdict

        return run

    def test_others_follow_and_the_missing_ones_are_wrong(self, soaked):
        verdict = soaked(Flawed)
        assert verdict.faults["server scripts forgotten"] >= 1
        assert "server flawed took place 0 times, 3 times were planned" in verdict.complaints
        assert set(verdict.failed_faults) == {"server flawed: not so within 20 s"}
        assert len(verdict.failed_faults) >= 1

    def test_when_none_can_follow_that_is_wrong_too(self, soaked):
        verdict = soaked(PastMending)
        assert any("no more faults for server" in each for each in verdict.complaints)
        assert any("flawed took place 0 times" in each for each in verdict.complaints)


class TestVerdict:
    @pytest.fixture
    def verdict(self):
        return Verdict(limit=10, timeout=0.1)

    def test_what_is_admitted_beyond_the_limit_is_wrong(self, verdict):
        verdict.enter(Tally("server", 1, acknowledged=6))
        verdict.enter(Tally("server", 1, acknowledged=4))
        assert verdict.over_admissions() == 0
        verdict.enter(Tally("server", 1, acknowledged=1))
        verdict.close({})
        assert verdict.over_admissions() == 1
        assert verdict.complaints == ["1 admitted beyond the limit"]

    def test_lost_keys_may_be_admitted_again_once(self, verdict):
        verdict.note_loss("server", 1, 1)
        verdict.enter(Tally("server", 1, acknowledged=20))
        assert verdict.over_admissions() == 0
        verdict.enter(Tally("server", 1, acknowledged=1))
        verdict.enter(Tally("server", 2, acknowledged=12))
        assert verdict.over_admissions() == 3

    @pytest.mark.parametrize(("counted", "well"), [(7, False), (8, True), (10, True), (11, False)])
    def test_counts_lie_between_what_is_known_and_what_may_be(self, verdict, counted, well):
        verdict.enter(Tally("server", 1, acknowledged=8, unknown=2, failed=5))
        verdict.compare("server", 1, counted)
        assert (not verdict.complaints) == well

    def test_a_run_that_ends_before_anything_was_measured_has_a_verdict(self, verdict):
        verdict.close({"server worker 0": Resources()})
        assert verdict.complaints == ["nothing was ever admitted"]

    def test_a_late_answer_is_wrong(self, verdict):
        verdict.enter(Tally("server", 1, acknowledged=1, slowest=1.2))
        verdict.close({})
        assert "took 1.20 s" in verdict.complaints[0]

    def test_a_slow_recovery_is_wrong(self, verdict):
        verdict.note_recovery("server killed", 2.9)
        assert not verdict.complaints
        verdict.note_recovery("server killed", None)
        assert "server killed" in verdict.complaints[0]

    def test_a_fault_that_was_planned_and_did_not_take_place_is_wrong(self, verdict):
        for _ in range(2):
            verdict.plan("server killed")
        verdict.note_fault("server killed")
        verdict.enter(Tally("server", 1, acknowledged=1))
        verdict.close({})
        assert verdict.complaints == ["server killed took place 1 times, 2 times were planned"]
        assert "faults         1: 1 x server killed\nplanned        2: 2 x server killed" in verdict.report()

    def test_what_grows_and_never_shrinks_is_a_leak(self):
        steady = Resources(descriptors=[10, 20, 10] * 10, memory_kb=[50_000, 60_000] * 15)
        growing = Resources(descriptors=list(range(10, 40)), memory_kb=[50_000] * 30)
        assert steady.leaks() == []
        assert len(growing.leaks()) == 1
