"""The server is stopped, goes on, or is killed and started again."""

from __future__ import annotations

import threading
import time

import pytest

from overlimit import StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import RECOVERY


def test_a_patient_call_outlives_a_short_stop(server, limiter_at, ledger, counted):
    limiter = limiter_at(server.tcp_url(), timeout=5.0)
    ledger.hit(limiter, "a")
    server.pause()
    caller = threading.Thread(target=ledger.hit, args=(limiter, "a"))
    caller.start()
    time.sleep(0.3)
    server.resume()
    caller.join()
    assert (ledger.acknowledged, counted("a")) == (2, 2)
    assert 0.3 <= ledger.slowest < 3.0


@pytest.mark.parametrize("url", ["tcp_url", "unix_url"])
def test_one_that_was_killed_and_started_again_is_a_new_epoch(server, limiter_at, ledger, counted, url):
    limiter = limiter_at(getattr(server, url)())
    assert [limiter.hit("a").remaining for _ in range(3)] == [999_999, 999_998, 999_997]
    server.kill()
    ledger.hit_times(20, limiter, "a")
    assert ledger.acknowledged == 0
    assert ledger.unknown <= 1
    ledger.assert_in_time(0.0)
    assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
    server.restart()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(10, limiter, "a")
    assert ledger.acknowledged == 10
    eventually(lambda: answers(limiter_at(server.unix_url())), within=RECOVERY)
    assert counted("a") == 10


def test_one_killed_again_and_again_under_threads_never_admits_more(server, limiter_at, ledger):
    limiter, epochs = limiter_at(server.tcp_url(), limits="50/day", timeout=1.0), 4
    with ledger.hammering(limiter, "a"):
        for epoch in range(1, epochs + 1):
            before = ledger.refused
            eventually(lambda before=before: ledger.refused > before + 50, within=RECOVERY)
            if epoch < epochs:
                server.kill()
                server.restart()
    assert 50 * epochs - ledger.unknown <= ledger.acknowledged <= 50 * epochs
