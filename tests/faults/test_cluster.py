"""A cluster that loses nodes, moves slots, and gets them back."""

from __future__ import annotations

import threading
import time

import pytest

from overlimit import StoreError
from servers.cluster import Cluster
from servers.patience import eventually

from .bounds import RECOVERY
from .conftest import counted_at

TIMEOUT = 0.5


@pytest.fixture(scope="module")
def shared_cluster():
    """A cluster for the tests, which leave it as they found it."""
    cluster = Cluster(masters=5)
    yield cluster
    cluster.stop()


@pytest.fixture
def place(prefix):
    """Return a function that tells the slot of an identifier."""
    return lambda cluster, identifier: cluster.slot_of(f"{prefix}1:default:{identifier}")


@pytest.fixture
def on_each(place):
    """Return a function that finds an identifier for each master of a cluster."""

    def find(cluster):
        found = {}
        for i in range(1000):
            node = cluster.owner_of(place(cluster, f"id:{i}"))
            found.setdefault(node.port, f"id:{i}")
            if len(found) == len(cluster.masters):
                return [found[master.port] for master in cluster.masters]
        raise AssertionError("no identifier for some master")

    return find


def hits_well(limiter, *identifiers):
    try:
        return all(limiter.hit(each) for each in identifiers)
    except StoreError:
        return False


class TestSlots:
    def test_a_process_has_at_most_three_connections_per_node(
        self, shared_cluster, limiter_at, on_each, ledger
    ):
        limiters = [limiter_at(shared_cluster.url(), timeout=5 + i) for i in range(4)]
        for identifier in on_each(shared_cluster):
            ledger.hit_from_threads(limiters * 3, identifier, times=10)
        assert ledger.acknowledged == 5 * 12 * 10
        for node in shared_cluster.masters:
            clients = node.ask("CLIENT", "LIST", "TYPE", "normal").splitlines()
            assert 1 <= sum(b"127.0.0.1" in line for line in clients) <= 3


class TestMigration:
    def test_every_stage_counts_each_hit_once(self, shared_cluster, limiter_at, place, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        source, target, *_ = shared_cluster.masters
        identifier, *_ = on_each(shared_cluster)
        slot = place(shared_cluster, identifier)
        ledger.hit_times(5, limiter, identifier)
        with shared_cluster.migrating(slot, target):
            ledger.hit_times(5, limiter, identifier)
            # Others may have left keys whose slot is the same by chance.
            keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10)
            key = next(each for each in keys if each.endswith(identifier.encode()))
            shared_cluster.move_key(key, source, target)
            ledger.hit_times(5, limiter, identifier)
        ledger.hit_times(5, limiter, identifier)
        assert (ledger.acknowledged, ledger.errors) == (20, [])
        assert counted_at(limiter_at, target.unix_url())(identifier) == 20
        with shared_cluster.migrating(slot, source):
            ledger.hit_times(5, limiter, identifier)
        assert counted_at(limiter_at, source.unix_url())(identifier) == 25
        ledger.assert_in_time(TIMEOUT)

    def test_threads_notice_nothing(self, shared_cluster, limiter_at, place, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(), timeout=2.0)
        source, target, *_ = shared_cluster.masters
        identifier, *_ = on_each(shared_cluster)
        slot = place(shared_cluster, identifier)
        with ledger.hammering(limiter, identifier):
            for to in (target, source) * 3:
                before = ledger.acknowledged
                with shared_cluster.migrating(slot, to):
                    eventually(lambda before=before: ledger.acknowledged > before + 50)
        assert ledger.acknowledged > 300
        assert ledger.errors == []
        assert counted_at(limiter_at, source.unix_url())(identifier) == ledger.acknowledged


class TestLostNodes:
    @pytest.fixture
    def limiter(self, shared_cluster, limiter_at, on_each):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        eventually(lambda: hits_well(limiter, *on_each(shared_cluster)))
        return limiter

    @pytest.fixture
    def lost(self, shared_cluster, request):
        """The masters to be lost, which are well again after the test."""
        nodes = shared_cluster.masters[: request.param]
        yield nodes
        for node in nodes:
            if not node.is_running():
                node.restart()
        eventually(shared_cluster.is_ready)

    @pytest.mark.parametrize("lost", [2], indirect=True)
    def test_those_that_are_killed_cost_only_their_slots_and_come_back(
        self, shared_cluster, limiter, on_each, lost, ledger
    ):
        identifiers = on_each(shared_cluster)
        for node in lost:
            node.kill()
        ends = time.monotonic() + 1.5
        while time.monotonic() < ends:
            for index, identifier in enumerate(identifiers):
                before = ledger.acknowledged
                ledger.hit(limiter, identifier)
                assert ledger.acknowledged == before + (index >= len(lost))
            time.sleep(0.01)
        ledger.assert_in_time(TIMEOUT)
        for node in lost:
            node.restart()
        eventually(shared_cluster.is_ready)
        eventually(lambda: hits_well(limiter, *identifiers), within=RECOVERY)

    @pytest.mark.parametrize("lost", [1], indirect=True)
    def test_one_that_is_stopped_costs_only_its_slots_and_comes_back(
        self, shared_cluster, limiter, on_each, lost, ledger
    ):
        silent, *others = on_each(shared_cluster)
        lost[0].pause()
        try:
            caller = threading.Thread(target=ledger.hit_for, args=(1.5, limiter, silent))
            caller.start()
            while caller.is_alive():
                assert hits_well(limiter, *others)
                time.sleep(0.002)
            caller.join()
        finally:
            lost[0].resume()
        assert ledger.acknowledged == 0
        ledger.assert_in_time(TIMEOUT)
        eventually(shared_cluster.is_ready)
        eventually(lambda: hits_well(limiter, silent, *others), within=RECOVERY)

    def test_a_replica_takes_over(self, start_cluster, limiter_at, on_each, ledger):
        cluster = start_cluster(replicas=1)
        limiter = limiter_at(cluster.url(), timeout=TIMEOUT)
        lost, *others = on_each(cluster)
        eventually(lambda: hits_well(limiter, lost, *others))
        killed = cluster.masters[0]
        killed.kill()
        new = cluster.await_failover(killed)
        eventually(lambda: new.state() == "ok")
        eventually(lambda: hits_well(limiter, lost), within=RECOVERY)
        before = counted_at(limiter_at, new.unix_url())(lost)
        ledger.hit_times(20, limiter, lost)
        assert ledger.acknowledged == 20
        assert counted_at(limiter_at, new.unix_url())(lost) == before + 20
