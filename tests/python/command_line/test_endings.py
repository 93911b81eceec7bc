"""How the command ends before its time, and what it shows until then."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from programs import command_without

from .test_commands import LIMITS, LOG, RUN, printed

pytestmark = pytest.mark.check


@pytest.fixture
def long_log(tmp_path):
    """A log whose tables are larger than a pipe holds."""
    path = tmp_path / "long.csv"
    path.write_text("".join(f"{k},user-{k:020}\n" for k in range(20_000)), encoding="utf-8")
    return [str(path), "--format", "csv", "--columns", "time,user", "--by", "user"]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_has_seen_enough_gets_no_traceback(long_log, form):
    command = [sys.executable, "-m", "overlimit", "replay", *long_log, "--limits", "1/hour", "--top", "20000"]
    with subprocess.Popen([*command, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) in {0, 2}


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    "command", [["replay", "--limits", "1/hour"], ["suggest", "--limits", "{}/hour", "--between", "1", "9"]]
)
def test_ctrl_c_ends_the_command_with_130(tmp_path, command):
    log = tmp_path / "endless.log"
    os.mkfifo(log)
    with subprocess.Popen(
        [sys.executable, "-m", "overlimit", *command, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        with log.open("wb"):  # once the command reads; if it is between two reads, the end wakes it up
            child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
    assert (child.returncode, output, errors.strip()) == (130, "", "")


def shown_on(terminal: int) -> str:
    """Return all that is written to a terminal until nobody has it open any more, and close it."""
    shown = b""
    with contextlib.suppress(OSError):  # EIO is how its end is told
        while piece := os.read(terminal, 1 << 16):
            shown += piece
    os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize(
    "command",
    [
        ["replay", LOG, "--limits", LIMITS],
        ["suggest", LOG, "--limits", "{}/minute", "--between", "1", "99", "--json"],
    ],
    ids=["replay", "suggest"],
)
def test_progress_is_shown_on_a_terminal_alone(command):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        command_without("tqdm", RUN.format(arguments=command)),
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        text=True,
    ) as child:
        os.close(theirs)
        shown = shown_on(ours)
        output = child.stdout.read()
    assert (child.returncode, output) == (0, printed(*command))
    assert "reading" in shown
    assert "events" in shown
    assert "100%" in shown
