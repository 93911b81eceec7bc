"""Connections are reset, refused, or gone with their server, and scripts are lost; how many there are."""

from __future__ import annotations

import threading
import time

import pytest

from overlimit import Limiter, RedisStore, StoreUnavailable
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
    assert ledger.median < 0.01
    texts = {str(error) for error in ledger.errors}
    assert any(str(server.port) in text for text in texts)
    assert limiter.stats()["breaker"] == "open"
    server.restart()
    eventually(lambda: answers(limiter), within=RECOVERY)
    assert limiter.stats()["breaker"] == "closed"


MOST = 3


def tcp_connections(server):
    """Count the clients that aren't the test's own, which use the unix socket."""
    return sum(b"127.0.0.1" in line for line in server.ask("CLIENT", "LIST").splitlines())


def test_a_process_has_at_most_three_whatever_its_limiters_and_threads(server, ledger, prefix):
    stores = [RedisStore(server.tcp_url(), timeout=10 + i, prefix=f"{prefix}{i % 3}") for i in range(6)]
    limiters = [Limiter("1000000/day", store=store, name=f"n{i}") for i, store in enumerate(stores * 4)]
    work = threading.Thread(target=ledger.hit_from_threads, args=(limiters, "a"), kwargs={"times": 100})
    work.start()
    eventually(lambda: ledger.acknowledged)
    most = [tcp_connections(server)]
    while work.is_alive():
        most.append(tcp_connections(server))
    work.join()
    assert 1 <= min(most)
    assert max(most) <= MOST
    assert (ledger.errors, ledger.acknowledged) == ([], 24 * 100)


def test_threads_notice_nothing_of_scripts_that_are_forgotten(server, limiter_at, ledger, counted):
    limiters = [limiter_at(server.tcp_url()) for _ in range(4)]
    work = threading.Thread(target=ledger.hit_from_threads, args=(limiters, "a"), kwargs={"times": 200})
    work.start()
    while work.is_alive():
        server.ask("SCRIPT", "FLUSH")
    work.join()
    assert (ledger.acknowledged, counted("a")) == (800, 800)
    assert ledger.errors == []
    assert ledger.slowest < RECOVERY


def test_nor_do_a_refund_and_a_lock(server, limiter_at):
    limiter = limiter_at(server.tcp_url(), limits="2/day")
    decision = limiter.hit("a")
    server.ask("SCRIPT", "FLUSH")
    limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 2
    server.ask("SCRIPT", "FLUSH")
    limiter.lock("a", 60)
    assert limiter.hit("a").status == "locked"
    eventually(lambda: limiter.hit("b"), within=RECOVERY)


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
