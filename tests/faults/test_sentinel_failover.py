"""The master is replaced by one of its replicas, and may come back believing that it still is."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from overlimit import StoreError, StoreUnavailable
from servers.patience import PATIENCE, eventually

from .answering import answers
from .bounds import RECOVERY
from .conftest import counted_at

TIMEOUT = 1.0
PAUSE = 0.002
"""Seconds between two hits of those who only have to be there while something happens."""


@pytest.fixture
def sentinels(start_sentinels):
    return start_sentinels(sentinels=1, down_after_ms=500)


@pytest.fixture
def limiter(sentinels, limiter_at):
    limiter = limiter_at(sentinels.url, timeout=TIMEOUT)
    eventually(lambda: answers(limiter), within=RECOVERY)
    return limiter


def connections(server):
    """Count the clients by TCP that are neither replicas nor sentinels."""
    lines = server.ask("CLIENT", "LIST", "TYPE", "normal").splitlines()
    return sum(b"127.0.0.1" in line and b"name=sentinel" not in line for line in lines)


def serves(server, limiter_at, limiter):
    """Whether a hit of the limiter is counted by that server."""
    counted = counted_at(limiter_at, server.unix_url())
    before = counted("probe")
    return answers(limiter) and counted("probe") == before + 1


def test_calls_go_to_the_master(sentinels, limiter, limiter_at, ledger):
    ledger.hit_from_threads([limiter] * 4, "a", times=25)
    assert ledger.acknowledged == 100
    assert counted_at(limiter_at, sentinels.master.unix_url())("a") == 100
    assert 1 <= connections(sentinels.master) <= 3
    assert connections(sentinels.replicas[0]) == 0
    sentinels.master.ask("CLIENT", "PAUSE", 45)
    assert limiter.hit_many(["a", "b", "c"]).allowed.all()


def test_a_killed_master_is_followed_by_the_new_one(sentinels, limiter, limiter_at, ledger):
    with ledger.hammering(limiter, "before", pause=PAUSE):
        eventually(lambda: ledger.acknowledged > 100)
        sentinels.master.kill()
        new = sentinels.await_failover()
        eventually(lambda: serves(new, limiter_at, limiter), within=RECOVERY)
    ledger.assert_in_time(TIMEOUT)
    assert all(isinstance(error, StoreError) for error in ledger.errors)
    before = ledger.acknowledged
    ledger.hit_times(50, limiter, "after")
    assert ledger.acknowledged == before + 50
    assert counted_at(limiter_at, new.unix_url())("after") == 50


def test_one_that_hands_over_loses_no_call_it_acknowledged_afterwards(sentinels, limiter, limiter_at, ledger):
    with ledger.hammering(limiter, "before", pause=PAUSE):
        eventually(lambda: ledger.acknowledged > 100)
        new = sentinels.fail_over()
        eventually(lambda: serves(new, limiter_at, limiter), within=RECOVERY)
    before = ledger.acknowledged
    with ledger.hammering(limiter, "after", pause=PAUSE):
        eventually(lambda: ledger.acknowledged > before + 100)
    counted = counted_at(limiter_at, new.unix_url())("after")
    assert 0 <= counted - (ledger.acknowledged - before) <= ledger.unknown
    ledger.assert_in_time(TIMEOUT)


@contextmanager
def resumed_later(server, seconds):
    """Resume a stopped server that long into the block."""
    timer = threading.Timer(seconds, server.resume)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def test_an_old_master_that_is_resumed_acknowledges_nothing(sentinels, limiter, limiter_at, ledger):
    old = sentinels.master
    ledger.hit_from_threads([limiter] * 4, "before", times=10)
    old.pause()
    new = sentinels.await_failover()
    eventually(lambda: serves(new, limiter_at, limiter), within=RECOVERY)
    acknowledged, unknown = ledger.acknowledged, ledger.unknown
    with resumed_later(old, 0.5), ledger.hammering(limiter, "after", pause=PAUSE):
        time.sleep(2.0)
        eventually(lambda: ledger.acknowledged > acknowledged + 100)
    after = ledger.acknowledged - acknowledged
    counted = counted_at(limiter_at, new.unix_url())("after")
    assert 0 <= counted - after <= ledger.unknown - unknown
    ledger.assert_in_time(TIMEOUT)


def test_one_that_is_stopped_is_passed_over_within_the_deadline(start_sentinels, limiter_at, ledger):
    sentinels = start_sentinels(sentinels=2)
    sentinels.sentinels[0].pause()
    limiter = limiter_at(sentinels.url, timeout=1.0)
    eventually(lambda: ledger.hit(limiter, "a") and ledger.acknowledged, within=RECOVERY)
    ledger.hit_times(10, limiter, "a")
    assert ledger.acknowledged >= 10
    ledger.assert_in_time(1.0)


def test_without_any_sentinel_the_known_master_goes_on_and_a_new_limiter_says_so(
    sentinels, limiter, limiter_at, ledger, prefix
):
    sentinels.sentinels[0].kill()
    ledger.hit_times(10, limiter, "a")
    assert ledger.acknowledged == 10
    lost = limiter_at(sentinels.url.replace("/limits", "/limits/1"), timeout=TIMEOUT)
    with pytest.raises(StoreUnavailable) as caught:
        lost.hit("a")
    assert not caught.value.maybe_charged
    sentinels.sentinels[0].restart()
    eventually(lambda: answers(lost), within=RECOVERY)


def test_a_master_without_its_sentinels_consent_is_followed_by_nobody(sentinels, limiter, ledger):
    """A master that was demoted behind the sentinels' back is found out by its answer."""
    sentinels.sentinels[0].pause()
    old, replica = sentinels.master, sentinels.replicas[0]
    replica.ask("REPLICAOF", "NO", "ONE")
    old.ask("REPLICAOF", "127.0.0.1", replica.port)
    ledger.hit_until_told("READONLY", limiter, "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)
    old.ask("REPLICAOF", "NO", "ONE")
    sentinels.sentinels[0].resume()
    eventually(lambda: answers(limiter), within=PATIENCE)
