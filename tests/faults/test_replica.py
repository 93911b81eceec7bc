"""The URL names a replica, or a master that lacks replicas."""

from __future__ import annotations

import pytest

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
    ledger.hit_until_told("READONLY", limiter, "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(0.1)
    assert counted("a") == 0
    replica.ask("REPLICAOF", "NO", "ONE")
    eventually(lambda: answers(limiter), within=RECOVERY)
    patient = limiter_at(replica.tcp_url())
    assert [patient.hit("b").remaining for _ in range(3)] == [999_999, 999_998, 999_997]


def test_one_that_lost_its_master_charges_nothing(server, replica, limiter_at, ledger):
    replica.ask("CONFIG", "SET", "replica-serve-stale-data", "no")
    server.kill()
    eventually(lambda: replica.ask("ROLE")[3] != b"connected")
    ledger.hit_until_told("MASTERDOWN", limiter_at(replica.tcp_url(), timeout=0.1), "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(0.1)


def test_one_without_enough_replicas_charges_nothing(server, limiter_at, ledger, counted):
    limiter = limiter_at(server.tcp_url(), timeout=0.1)
    server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    ledger.hit_until_told("NOREPLICAS", limiter, "a")
    assert counted("a") == ledger.acknowledged == 0
    server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    eventually(lambda: answers(limiter), within=RECOVERY)
