"""The URL names a replica."""

from __future__ import annotations

import pytest

from overlimit import StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import RECOVERY


@pytest.fixture
def replica(server, start_redis):
    replica = start_redis(replica_of=server)
    eventually(lambda: replica.ask("ROLE")[3] == b"connected")
    return replica


def test_it_charges_nothing_until_it_is_the_master(replica, limiter_at, ledger, counted):
    limiter = limiter_at(replica.tcp_url(), timeout=0.1)
    outcomes = ledger.hit_times(5, limiter, "a")
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert (ledger.failed, ledger.unknown) == (5, 0)
    ledger.assert_in_time(0.1)
    assert counted("a") == 0
    replica.ask("REPLICAOF", "NO", "ONE")
    eventually(lambda: answers(limiter), within=RECOVERY)
    remaining = [limiter.hit("a").remaining for _ in range(3)]
    assert remaining == [999_999, 999_998, 999_997]


def test_one_that_lost_its_master_charges_nothing(server, replica, limiter_at, ledger):
    replica.ask("CONFIG", "SET", "replica-serve-stale-data", "no")
    server.kill()
    eventually(lambda: replica.ask("ROLE")[3] != b"connected")
    ledger.hit_times(3, limiter_at(replica.tcp_url(), timeout=0.1), "a")
    assert (ledger.failed, ledger.unknown, ledger.acknowledged) == (3, 0, 0)
    assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
    ledger.assert_in_time(0.1)
