"""A process ends in peace while daemon threads still use limiters."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import sys, threading, time
    import overlimit
    from overlimit import Limiter, MemoryStore

    how, url = sys.argv[1:]
    clock = (lambda: 5.0) if how == "callable" else None
    store = MemoryStore() if how in ("details", "callable") else url
    limiter = Limiter("5/second", name="default", store=store, clock=clock)

    def use():
        while True:
            decision = limiter.hit("a")
            if how != "hit":
                decision.details

    for _ in range(4):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(0.2)
"""


@pytest.mark.parametrize("how", ["hit", "details", "callable", "redis details"])
def test_daemon_threads_in_a_call_do_not_abort_the_process(redis_server, how):
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), how, redis_server.unix_url() + "&timeout=10"],
            capture_output=True,
            check=False,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")
