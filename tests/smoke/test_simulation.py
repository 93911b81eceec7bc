"""Limits tried on a log, in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMMANDS = [[str(Path(sysconfig.get_path("scripts"), "overlimit"))], [sys.executable, "-m", "overlimit"]]


def output_of(command: list[str], *arguments: str) -> str:
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.needs("simulation")
def test_a_replay_refuses_exactly_what_exceeds_the_limit(access_log):
    from overlimit.simulation import read_log, replay

    replayed = replay(read_log(access_log), "20/minute")
    assert (len(replayed.events), replayed.refused) == (40, 10)
    assert [bool(each) for each in replayed.allowed] == [True] * 30 + [False] * 10


@pytest.mark.needs("cli")
@pytest.mark.parametrize("command", COMMANDS, ids=["script", "module"])
def test_the_command_says_what_it_can_do(command):
    told = output_of(command, "--help")
    assert told.startswith("Usage: ")
    assert "replay" in told
    assert "suggest" in told


@pytest.mark.needs("cli")
def test_the_command_replays_a_log(access_log):
    told = json.loads(output_of(COMMANDS[0], "replay", str(access_log), "--limits", "20/minute", "--json"))
    assert (told["events"], told["refused"], told["bad_lines"]) == (40, 10, 0)


@pytest.mark.needs("cli")
def test_the_command_suggests_the_smallest_limit_that_refuses_nobody(access_log):
    arguments = ("suggest", str(access_log), "--limits", "{}/minute", "--between", "1", "100", "--json")
    assert json.loads(output_of(COMMANDS[1], *arguments))["value"] == 30
