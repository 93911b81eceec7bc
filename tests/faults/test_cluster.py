"""A cluster that loses nodes, moves slots, and gets them back."""

from __future__ import annotations

import threading
import time

import pytest

from overlimit import StoreConfigError, StoreUnavailable
from servers.patience import PATIENCE, eventually

from .answering import answers
from .bounds import LATE, RECOVERY
from .conftest import counted_at
from .pending import CLUSTER, ON_ERROR

pytestmark = CLUSTER

TIMEOUT = 0.5
DOWN = 3.0
"""Seconds until a cluster has noticed that a node is down, or back."""


@pytest.fixture(scope="module")
def shared_cluster():
    """A cluster for the tests that leave it as they found it."""
    from servers.cluster import Cluster

    cluster = Cluster()
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
    except StoreUnavailable:
        return False


class TestSlots:
    def test_each_identifier_is_counted_where_its_slot_is(self, shared_cluster, limiter_at, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        identifiers = on_each(shared_cluster)
        for identifier in identifiers:
            ledger.hit_times(10, limiter, identifier)
        assert ledger.acknowledged == 30
        for node, identifier in zip(shared_cluster.masters, identifiers, strict=True):
            assert counted_at(limiter_at, node.unix_url())(identifier) == 10

    def test_several_slots_in_one_call_are_an_error_that_names_the_option(
        self, shared_cluster, limiter_at, on_each
    ):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        identifiers = on_each(shared_cluster)
        with pytest.raises(StoreConfigError, match="hash_tag"):
            limiter.hit(*identifiers)
        for node, identifier in zip(shared_cluster.masters, identifiers, strict=True):
            assert counted_at(limiter_at, node.unix_url())(identifier) == 0

    @ON_ERROR
    def test_whatever_on_error_says(self, shared_cluster, limiter_at, on_each):
        for on_error in ("allow", "deny", "local"):
            limiter = limiter_at(shared_cluster.url(), on_error=on_error)
            with pytest.raises(StoreConfigError, match="hash_tag"):
                limiter.hit(*on_each(shared_cluster))

    def test_any_node_is_enough_to_find_the_others(self, shared_cluster, limiter_at, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(nodes=shared_cluster.masters[2:]), timeout=TIMEOUT)
        for identifier in on_each(shared_cluster):
            ledger.hit(limiter, identifier)
        assert ledger.acknowledged == 3

    def test_a_process_has_at_most_three_connections_per_node(
        self, shared_cluster, limiter_at, on_each, ledger
    ):
        limiters = [limiter_at(shared_cluster.url(), timeout=5 + i) for i in range(4)]
        for identifier in on_each(shared_cluster):
            ledger.hit_from_threads(limiters * 3, identifier, times=10)
        assert ledger.acknowledged == 3 * 12 * 10
        for node in shared_cluster.masters:
            clients = node.ask("CLIENT", "LIST", "TYPE", "normal").splitlines()
            assert 1 <= sum(b"127.0.0.1" in line for line in clients) <= 3

    def test_forgotten_scripts_are_sent_to_each_node(self, shared_cluster, limiter_at, on_each, ledger):
        limiter = limiter_at(shared_cluster.url())
        for _ in range(3):
            for node in shared_cluster.masters:
                node.ask("SCRIPT", "FLUSH")
            for identifier in on_each(shared_cluster):
                ledger.hit(limiter, identifier)
        assert ledger.acknowledged == 9


class TestMigration:
    def test_every_stage_counts_each_hit_once(self, shared_cluster, limiter_at, place, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        source, target, _ = shared_cluster.masters
        identifier, _, _ = on_each(shared_cluster)
        slot = place(shared_cluster, identifier)
        ledger.hit_times(5, limiter, identifier)
        with shared_cluster.migrating(slot, target):
            ledger.hit_times(5, limiter, identifier)
            (key,) = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10)
            shared_cluster.move_key(key, source, target)
            ledger.hit_times(5, limiter, identifier)
        ledger.hit_times(5, limiter, identifier)
        assert (ledger.acknowledged, ledger.errors) == (20, [])
        assert counted_at(limiter_at, target.unix_url())(identifier) == 20
        with shared_cluster.migrating(slot, source):
            ledger.hit_times(5, limiter, identifier)
        assert counted_at(limiter_at, source.unix_url())(identifier) == 25
        assert ledger.slowest < TIMEOUT + LATE

    def test_one_that_begins_there_is_new_on_the_target(
        self, shared_cluster, limiter_at, place, on_each, ledger
    ):
        limiter = limiter_at(shared_cluster.url(), timeout=TIMEOUT)
        source, target, _ = shared_cluster.masters
        identifier, _, _ = on_each(shared_cluster)
        slot = place(shared_cluster, identifier)
        with shared_cluster.migrating(slot, target):
            ledger.hit_times(5, limiter, identifier)
        ledger.hit_times(5, limiter, identifier)
        assert counted_at(limiter_at, target.unix_url())(identifier) == ledger.acknowledged == 10
        with shared_cluster.migrating(slot, source):
            pass

    def test_threads_notice_nothing(self, shared_cluster, limiter_at, place, on_each, ledger):
        limiter = limiter_at(shared_cluster.url(), timeout=2.0)
        source, target, _ = shared_cluster.masters
        identifier, _, _ = on_each(shared_cluster)
        slot = place(shared_cluster, identifier)
        with ledger.hammering(limiter, identifier):
            for to in (target, source) * 3:
                before = ledger.acknowledged
                with shared_cluster.migrating(slot, to):
                    eventually(lambda before=before: ledger.acknowledged > before + 50)
        assert ledger.acknowledged > 300
        assert ledger.errors == []
        assert counted_at(limiter_at, source.unix_url())(identifier) == ledger.acknowledged

    def test_two_identifiers_of_one_slot_on_two_nodes_wait_for_each_other(
        self, shared_cluster, prefix, ledger
    ):
        from overlimit import Limiter, RedisStore

        store = RedisStore(shared_cluster.url(), timeout=5.0, prefix=prefix, hash_tag="policy")
        limiter = Limiter("1000/day", store=store)
        slot = shared_cluster.slot_of(f"{{{prefix}1:default}}:a")
        source = shared_cluster.owner_of(slot)
        target = next(node for node in shared_cluster.masters if node is not source)
        ledger.hit(limiter, "a", "b")
        with shared_cluster.migrating(slot, target):
            shared_cluster.move_key(f"{{{prefix}1:default}}:a", source, target)
            caller = threading.Thread(target=ledger.hit, args=(limiter, "a", "b"))
            caller.start()
            time.sleep(0.2)
        caller.join()
        assert (ledger.acknowledged, ledger.errors) == (2, [])
        assert [limiter.peek(each, cost=0).remaining for each in ("a", "b")] == [998, 998]
        with shared_cluster.migrating(slot, source):
            pass


class TestLostNodes:
    def test_one_costs_only_its_slots_and_comes_back(self, start_cluster, limiter_at, on_each, ledger):
        cluster = start_cluster()
        limiter = limiter_at(cluster.url(), timeout=TIMEOUT)
        lost, *others = on_each(cluster)
        eventually(lambda: hits_well(limiter, lost, *others))
        cluster.masters[0].kill()
        ends = time.monotonic() + 2.0
        while time.monotonic() < ends:
            failed = ledger.failed + ledger.unknown
            ledger.hit(limiter, lost)
            assert ledger.failed + ledger.unknown == failed + 1
            before = ledger.acknowledged
            for other in others:
                ledger.hit(limiter, other)
            assert ledger.acknowledged == before + len(others)
        assert ledger.slowest < TIMEOUT + LATE
        cluster.masters[0].restart()
        eventually(lambda: cluster.masters[0].state() == "ok")
        eventually(lambda: hits_well(limiter, lost, *others), within=RECOVERY)

    def test_a_stopped_one_costs_only_its_slots_and_comes_back(
        self, start_cluster, limiter_at, on_each, ledger
    ):
        cluster = start_cluster()
        limiter = limiter_at(cluster.url(), timeout=TIMEOUT)
        lost, *others = on_each(cluster)
        eventually(lambda: hits_well(limiter, lost, *others))
        cluster.masters[0].pause()
        silent = threading.Thread(target=ledger.hit_for, args=(2.0, limiter, lost))
        silent.start()
        while silent.is_alive():
            assert hits_well(limiter, *others)
        silent.join()
        assert ledger.acknowledged == 0
        assert ledger.slowest < TIMEOUT + LATE
        cluster.masters[0].resume()
        eventually(lambda: cluster.masters[0].state() == "ok")
        eventually(lambda: hits_well(limiter, lost, *others), within=RECOVERY)

    def test_several_cost_only_theirs(self, start_cluster, limiter_at, on_each, ledger):
        cluster = start_cluster(masters=5)
        limiter = limiter_at(cluster.url(), timeout=TIMEOUT)
        identifiers = on_each(cluster)
        eventually(lambda: hits_well(limiter, *identifiers))
        for node in cluster.masters[:2]:
            node.kill()
        # Those that are left may fail for a moment, while they decide that they are the majority.
        time.sleep(DOWN)
        for _ in range(20):
            for identifier in identifiers:
                ledger.hit(limiter, identifier)
        assert ledger.acknowledged == 20 * 3
        assert ledger.failed + ledger.unknown == 20 * 2
        assert ledger.slowest < TIMEOUT + LATE

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

    def test_nodes_that_are_down_are_passed_over_at_the_start(
        self, start_cluster, limiter_at, on_each, ledger
    ):
        cluster = start_cluster()
        _, second, third = on_each(cluster)
        cluster.masters[0].kill()
        limiter = limiter_at(cluster.url(), timeout=TIMEOUT)
        eventually(lambda: answers_one_of(limiter, second, third), within=PATIENCE)
        ledger.hit_times(5, limiter, second)
        ledger.hit_times(5, limiter, third)
        assert ledger.acknowledged == 10


def answers_one_of(limiter, *identifiers):
    return answers(limiter) or hits_well(limiter, *identifiers)
