"""Connections are reset, refused, or gone with their server."""

from __future__ import annotations

import threading
import time

import pytest

from overlimit import StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import LATEST, RECOVERY


@pytest.fixture
def calling(ledger):
    """Return a function that has a thread hit ``"a"`` once, and returns the thread."""

    def call(limiter):
        thread = threading.Thread(target=ledger.hit, args=(limiter, "a"))
        thread.start()
        return thread

    return call


def test_a_reset_during_a_call_ends_it_at_once(proxy, limiter_at, ledger, counted, calling):
    limiter = limiter_at(proxy.url)
    limiter.hit("a")
    proxy.hold_replies()
    caller = calling(limiter)
    eventually(lambda: counted("a") == 2)
    proxy.reset()
    caller.join()
    assert ledger.slowest < LATEST
    assert isinstance(ledger.errors[0], StoreUnavailable)
    assert ledger.errors[0].maybe_charged
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.assert_accounts_for(counted("a") - 1)


def test_a_server_killed_during_a_call_ends_it_at_once(server, limiter_at, ledger, calling):
    limiter = limiter_at(server.tcp_url())
    ledger.hit(limiter, "b")
    server.pause()
    caller = calling(limiter)
    time.sleep(0.1)
    server.kill()
    caller.join()
    assert ledger.slowest < LATEST
    assert isinstance(ledger.errors[0], StoreUnavailable)
    assert ledger.unknown <= 1


@pytest.mark.parametrize("on", ["url", "unix_url"])
def test_refused_connections_fail_at_once_and_charge_nothing(proxy, limiter_at, ledger, counted, on):
    limiter = limiter_at(getattr(proxy, on))
    proxy.refuse()
    ledger.hit_times(50, limiter, "a")
    assert (ledger.failed, ledger.unknown, ledger.acknowledged) == (50, 0, 0)
    assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
    assert ledger.median < 0.01
    ledger.assert_in_time(0.0)
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(10, limiter, "a")
    assert counted("a") == ledger.acknowledged == 10


def test_one_that_refuses_is_asked_seldom(server, limiter_at, ledger):
    limiter = limiter_at(server.tcp_url())
    server.kill()
    ledger.hit_for(1.0, limiter, "a")
    assert ledger.median < 0.001
    texts = {str(error) for error in ledger.errors}
    assert any(str(server.port) in text for text in texts)
    assert limiter.stats()["breaker"] == "open"
    server.restart()
    eventually(lambda: answers(limiter), within=RECOVERY)
    assert limiter.stats()["breaker"] == "closed"


def test_calls_that_are_never_made_need_no_recovery(proxy, limiter_at, ledger):
    limiter = limiter_at(proxy.url)
    limiter.hit("warm")
    proxy.reset()
    time.sleep(0.2)
    ledger.hit(limiter, "a")
    assert ledger.acknowledged == 1


def test_threads_whose_connections_are_reset_again_and_again(proxy, limiter_at, ledger, counted):
    with ledger.hammering(limiter_at(proxy.url), "a", threads=6):
        for _ in range(5):
            before = ledger.acknowledged
            eventually(lambda before=before: ledger.acknowledged > before + 20, within=RECOVERY)
            proxy.reset()
    assert ledger.acknowledged > 100
    assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
    ledger.assert_accounts_for(counted("a"))
