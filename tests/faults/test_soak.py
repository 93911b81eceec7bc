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

pytestmark = [pytest.mark.check, pytest.mark.xdist_group("storms")]

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


ONE = Tally("server", 1, acknowledged=1)
COMPLAINTS = {
    "too many": (lambda of: of.enter(Tally("server", 1, acknowledged=11)), "1 admitted beyond the limit"),
    "nobody": (lambda of: None, "nothing was ever admitted"),
    "a late answer": (lambda of: of.enter(Tally("server", 1, acknowledged=1, slowest=1.2)), "took 1.20 s"),
    "a slow recovery": (lambda of: (of.enter(ONE), of.note_recovery("server killed", None)), "server killed"),
    "no fault": (lambda of: (of.enter(ONE), of.plan("server killed")), "0 times, 1 times were planned"),
}


class TestVerdict:
    @pytest.fixture
    def verdict(self):
        return Verdict(limit=10, timeout=0.1)

    @pytest.mark.parametrize(("happens", "complaint"), COMPLAINTS.values(), ids=COMPLAINTS)
    def test_says_what_is_wrong(self, verdict, happens, complaint):
        happens(verdict)
        verdict.close({})
        assert len(verdict.complaints) == 1
        assert complaint in verdict.complaints[0]

    def test_complains_of_nothing_that_is_right(self, verdict):
        verdict.plan("server killed")
        verdict.note_fault("server killed")
        verdict.note_recovery("server killed", 2.9)
        verdict.enter(Tally("server", 1, acknowledged=10))
        verdict.close({})
        assert verdict.complaints == []
        assert "faults         1: 1 x server killed\nplanned        1: 1 x server killed" in verdict.report()

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

    def test_what_grows_and_never_shrinks_is_a_leak(self):
        steady = Resources(descriptors=[10, 20, 10] * 10, memory_kb=[50_000, 60_000] * 15)
        growing = Resources(descriptors=list(range(10, 40)), memory_kb=[50_000] * 30)
        assert steady.leaks() == []
        assert len(growing.leaks()) == 1
