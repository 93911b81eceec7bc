"""A cluster whose nodes don't know, for a while, who serves a slot: young, half told, or behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import Decision, Limiter, RedisStore, StoreUnavailable
from servers.cluster import Cluster
from servers.patience import PATIENCE, eventually

from .bounds import RECOVERY
from .conftest import counted_at

IDENTIFIERS = [f"id:{i}" for i in range(30)]


@pytest.fixture(scope="module")
def cluster():
    """A cluster for the tests, which leave every slot with its node."""
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def young_cluster():
    """Three nodes that serve their slots and have never heard of each other."""
    cluster = Cluster(introduced=False)
    yield cluster
    cluster.stop()


@pytest.fixture
def slot(cluster, prefix):
    """The slot of the identifier "a"."""
    return cluster.slot_of(f"{prefix}1:default:a")


def asked(cluster, command="cluster|slots"):
    return sum(node.times_asked(command) for node in cluster.nodes)


class TestASlotThatNobodyServes:
    def test_a_call_waits_until_somebody_does(self, cluster, slot, limiter_at, ledger):
        limiter = limiter_at(cluster.url(), timeout=PATIENCE)
        with ThreadPoolExecutor(1) as pool, cluster.unserved(slot) as owner:
            before = asked(cluster)
            waiting = pool.submit(ledger.hit, limiter, "a")
            eventually(lambda: asked(cluster) >= before + 2 * len(cluster.nodes))
            assert not waiting.done()
            owner.serve(slot)
            waiting.result(PATIENCE)
        assert (ledger.acknowledged, ledger.errors) == (1, [])
        assert ledger.slowest < RECOVERY
        assert counted_at(limiter_at, cluster.url())("a") == 1

    @pytest.mark.parametrize("is_known", [False, True])
    def test_it_is_an_error_at_the_deadline_after_few_questions(
        self, cluster, slot, limiter_at, ledger, is_known
    ):
        limiter = limiter_at(cluster.url(), timeout=0.6)
        if is_known:
            limiter.hit("a")
        with cluster.unserved(slot):
            maps, hits = asked(cluster), asked(cluster, "evalsha")
            ledger.hit_from_threads([limiter] * 4, "a", times=3)
            maps, hits = asked(cluster) - maps, asked(cluster, "evalsha") - hits
        assert ledger.failed == 12
        assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
        assert all("slot" in str(error) for error in ledger.errors)
        ledger.assert_in_time(0.6)
        assert min(ledger.seconds) > 0.3, "another node may have learned of the slot until then"
        # At most nine rounds in two seconds: the pauses are 5 ms at least, and double up to 0.5 s.
        assert 2 * len(cluster.nodes) <= maps <= 12 * len(cluster.nodes)
        # Of each call, with pauses that double up to a twentieth of a second in the mean.
        assert hits <= (12 * 30 if is_known else 0)

    def test_others_are_served_at_once_meanwhile(self, cluster, slot, prefix, limiter_at, ledger):
        limiter = limiter_at(cluster.url(), timeout=PATIENCE)
        others = [each for each in IDENTIFIERS if cluster.slot_of(f"{prefix}1:default:{each}") != slot]
        with ThreadPoolExecutor(1) as pool, cluster.unserved(slot) as owner:
            before = asked(cluster)
            waiting = pool.submit(limiter.hit, "a")
            eventually(lambda: asked(cluster) > before)
            for identifier in others:
                ledger.hit_times(10, limiter, identifier)
            assert not waiting.done()
            owner.serve(slot)
            assert waiting.result(PATIENCE)
        assert ledger.acknowledged == 10 * len(others)
        assert ledger.slowest < RECOVERY


class TestASlotThatOneNodeDoesNotKnow:
    def test_the_next_one_is_asked(self, cluster, slot, limiter_at, ledger):
        owner = cluster.owner_of(slot)
        ignorant = [node for node in cluster.nodes if node is not owner]
        for timeout in (PATIENCE, PATIENCE + 1):  # each time another limiter
            for node in ignorant:
                node.forgets(slot)
            limiter = limiter_at(cluster.url(nodes=[*ignorant, owner]), timeout=timeout)
            ledger.hit_times(3, limiter, "a")
        assert (ledger.acknowledged, ledger.errors) == (6, [])
        eventually(cluster.is_ready)

    def test_what_was_known_before_is_kept(self, cluster, slot, limiter_at, ledger):
        """Nobody else's slots are lost with the map of a node that knows little."""
        limiter = limiter_at(cluster.url(), timeout=PATIENCE)
        ledger.hit(limiter, "a")
        owner = cluster.owner_of(slot)
        for _ in range(10):
            for node in cluster.nodes:
                if node is not owner:
                    node.forgets(slot)
            limiter.reset_all()  # it looks at every master, and so asks for the map
            before = asked(cluster, "evalsha")
            ledger.hit(limiter, "a")
            assert asked(cluster, "evalsha") == before + 1
        assert (ledger.acknowledged, ledger.errors) == (11, [])
        eventually(cluster.is_ready)


class TestAYoungCluster:
    def test_nodes_that_do_not_know_each_other_serve_their_slots(self, young_cluster, limiter_at, ledger):
        limiter = limiter_at(young_cluster.url(), timeout=PATIENCE)
        for identifier in IDENTIFIERS:
            ledger.hit(limiter, identifier)
        assert (ledger.acknowledged, ledger.errors) == (len(IDENTIFIERS), [])
        assert [node.ask("DBSIZE") > 0 for node in young_cluster.nodes] == [True] * 3

    def test_a_call_waits_until_the_only_one_in_the_url_knows_the_others(
        self, young_cluster, limiter_at, ledger
    ):
        limiter = limiter_at(young_cluster.url(nodes=young_cluster.nodes[:1]), timeout=PATIENCE)
        with ThreadPoolExecutor(len(IDENTIFIERS)) as pool:
            waiting = [pool.submit(ledger.hit, limiter, each) for each in IDENTIFIERS]
            eventually(lambda: 0 < ledger.acknowledged < len(IDENTIFIERS))
            young_cluster.introduce()
            for each in waiting:
                each.result(PATIENCE)
        assert (ledger.acknowledged, ledger.errors) == (len(IDENTIFIERS), [])

    def test_reset_all_waits_for_all_masters_and_says_if_one_is_missing(self, young_cluster, prefix):
        def limiter(timeout, *nodes):
            store = RedisStore(young_cluster.url(nodes=nodes), timeout=timeout, prefix=prefix)
            return Limiter("5/minute", store=store, name="young")

        everyone = limiter(PATIENCE, *young_cluster.nodes)
        for identifier in IDENTIFIERS:
            assert everyone.hit(identifier)
        with pytest.raises(StoreUnavailable, match="serves slot"):
            limiter(0.3, young_cluster.nodes[0]).reset_all()
        assert [node.ask("DBSIZE") > 0 for node in young_cluster.nodes] == [False, True, True]
        everyone.reset_all()
        assert [node.ask("DBSIZE") for node in young_cluster.nodes] == [0, 0, 0]


def moved_behind_the_back_of_one(cluster, slot):
    """Move a slot; return the node that has it now, the one that had it, and the one that knows no better."""
    new, behind, old = cluster.nodes
    was = cluster.owner_of(slot)
    # From the highest epoch to the lowest, so that the third doesn't believe its new owner.
    for node in (was, old, *cluster.nodes) if was is not old else ():
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", old.id)
    tell_of_the_move(slot, new, new, old)
    return new, old, behind


def tell_of_the_move(slot, new, *nodes):
    for node in nodes:
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", new.id)


class TestANodeThatIsBehind:
    @pytest.fixture
    def cluster(self, start_cluster):
        return start_cluster()

    def test_calls_find_the_owner_past_it(self, cluster, slot, limiter_at, ledger):
        new, old, behind = moved_behind_the_back_of_one(cluster, slot)
        limiter = limiter_at(cluster.url(nodes=[behind]), timeout=PATIENCE)
        for _ in range(30):
            tell_of_the_move(slot, new, new, old)  # the third tells them otherwise
            ledger.hit(limiter, "a")
        assert ledger.errors == []
        assert counted_at(limiter_at, new.unix_url())("a") == ledger.acknowledged == 30

    def test_the_dead_node_that_it_names_is_not_in_the_way(self, cluster, slot, limiter_at, ledger):
        new, old, behind = moved_behind_the_back_of_one(cluster, slot)
        old.kill()
        limiter = limiter_at(cluster.url(nodes=[behind, new]), timeout=1.0)

        def is_answered():
            tell_of_the_move(slot, new, new)  # the third tells it otherwise
            return isinstance(ledger.hit(limiter, "a"), Decision)

        eventually(is_answered, within=RECOVERY)
        assert all(is_answered() for _ in range(30))
        ledger.assert_accounts_for(counted_at(limiter_at, new.unix_url())("a"))
