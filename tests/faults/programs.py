"""Running a program of a test in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

_PRELUDE = '''
import faulthandler, os, signal, sys, threading, time
from overlimit import Limiter, RedisStore

faulthandler.dump_traceback_later(50, exit=True)

def sockets():
    """The inodes of the sockets that this process has open."""
    links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return {os.readlink(each) for each in links if os.path.exists(each) or os.path.islink(each)
            if os.readlink(each).startswith("socket:")}

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def in_child(work):
    """Fork; the child works and ends, by an alarm if it hangs. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(20)
    status = 1
    try:
        work()
        status = 0
    finally:
        if status:
            faulthandler.dump_traceback()
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

def ended(pid):
    """Wait for a child and check that it ended well."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"

def hit_in_order(limiter, identifier, times):
    """Hit alone on an identifier: each must leave one less."""
    left = [limiter.hit(identifier).remaining for _ in range(times)]
    assert left == list(range(left[0], left[0] - times, -1)), left
'''


def run_program(text: str, *arguments: str, directory: Path, options: tuple[str, ...] = ()) -> str:
    """Run it from a file, with what every program of these tests uses before it; return what it prints.

    AssertionError with what it wrote to stderr unless it ends in peace and writes nothing there.
    """
    path = directory / "program.py"
    path.write_text(_PRELUDE + textwrap.dedent(text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *options, path, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def counts_of_storm(program: str, seconds: float, **options: Any) -> dict[str, Any]:
    """Run a storm of this folder for so long and return what it counted; AssertionError if it failed."""
    done = subprocess.run(
        [
            sys.executable, "-W", "error", "-m", f"faults.{program}",
            json.dumps({"seconds": seconds, **options}),
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60 + 3 * seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts
