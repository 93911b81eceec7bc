"""A store in a Redis Cluster: every key on its node, wherever its slot moves."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Timer
from typing import Any

import pytest
from flask import Flask

from overlimit import (
    Decision,
    FixedWindow,
    Limit,
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    StoreConfigError,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
    hit_all,
)
from overlimit.flask import RateLimit
from servers.cluster import Cluster, Node
from servers.patience import PATIENCE, eventually

from .all_algorithms import CALENDAR, of_each_algorithm

IDENTIFIERS = [f"id:{i}" for i in range(40)]
OF_EACH: dict[str, Limit | str] = of_each_algorithm(6, 2) | CALENDAR | {"two": "5/second; 12/minute"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def store(cluster: Cluster, prefix: str) -> RedisStore:
    return RedisStore(cluster.url(), timeout=PATIENCE, prefix=prefix)


def tagged(cluster: Cluster, prefix: str, hash_tag: str) -> RedisStore:
    return RedisStore(f"{cluster.url()}?hash_tag={hash_tag}", timeout=PATIENCE, prefix=prefix)


def keys_of(cluster: Cluster, prefix: str) -> list[int]:
    """Return how many keys each master holds."""
    return [len(node.ask("KEYS", f"*{prefix}1*")) for node in cluster.masters]


def spent(limiter: Limiter, identifier: str) -> int:
    decision = limiter.peek(identifier, cost=0)
    return limiter.limits[0].limit - decision.remaining


def owned_by(cluster: Cluster, node: Node, store_prefix: str) -> list[str]:
    """Return the identifiers whose keys this node holds."""
    slot = cluster.slot_of
    return [each for each in IDENTIFIERS if cluster.owner_of(slot(f"{store_prefix}1:default:{each}")) is node]


class TestSlots:
    @pytest.mark.parametrize("hash_tag", ["policy", "true", "prefix"])
    def test_with_a_hash_tag_they_are_one_call(self, cluster, prefix, hash_tag):
        limiter = Limiter("3/minute", name="default", store=tagged(cluster, prefix, hash_tag))
        assert limiter.hit("a", "b", "x" * 300, cost=2)
        assert not limiter.hit("b", "c", cost=2)
        assert [spent(limiter, each) for each in ("a", "b", "c", "x" * 300)] == [2, 2, 0, 2]

    def test_reset_takes_identifiers_of_any_slots(self, store):
        limiter = Limiter("3/minute", name="default", store=store)
        for identifier in IDENTIFIERS:
            limiter.hit(identifier)
        limiter.reset(*IDENTIFIERS[:16])
        assert [spent(limiter, each) for each in IDENTIFIERS[:20]] == [0] * 16 + [1] * 4

    @pytest.mark.parametrize("hash_tag", ["false", "policy", "prefix"])
    def test_reset_all_forgets_one_policy_on_all_nodes(self, cluster, prefix, hash_tag):
        store = tagged(cluster, prefix, hash_tag)
        forgotten, kept = (Limiter("3/minute", store=store, name=name) for name in ("one", "other"))
        for identifier in IDENTIFIERS:
            forgotten.hit(identifier)
            kept.hit(identifier)
        forgotten.reset_all()
        assert sum(keys_of(cluster, prefix)) == len(IDENTIFIERS)
        assert [spent(forgotten, each) for each in IDENTIFIERS[:3]] == [0, 0, 0]
        assert [spent(kept, each) for each in IDENTIFIERS[:3]] == [1, 1, 1]


def asked(verb: str, limiters: list[Limiter], identifiers: list[str], cost: int) -> Decision:
    """Ask one policy, or two of them about the identifiers in turn."""
    if verb == "hit_all":
        return hit_all([(limiters[place % 2], each, cost) for place, each in enumerate(identifiers)])
    decision: Decision = getattr(limiters[0], verb)(*identifiers, cost=cost)
    return decision


def shown(decision: Decision) -> list[Any]:
    """What is the same in a cluster: resets of what was refused are not."""
    rows = [(row.identifier, row.policy, row.allowed, row.remaining) for row in decision.details]
    return [decision.status, decision.remaining, decision.retry_after, decision.time, rows]


def kept_where(cluster: Cluster, key: str) -> bool:
    return cluster.owner_of(cluster.slot_of(key)).ask("EXISTS", key) == 1


class TestCallsAcrossSlots:
    """``docs/semantics.md``: calls across slots."""

    def test_or_none_is(self, store):
        limiter = Limiter("3/minute", name="default", store=store)
        limiter.hit(IDENTIFIERS[5], cost=2)
        decision = limiter.hit(*IDENTIFIERS[:12], cost=2)
        assert (decision.status, decision.remaining, decision.retry_after > 0) == ("over", 1, True)
        assert [row.remaining for row in decision.details] == [3] * 5 + [1] + [3] * 6
        assert [spent(limiter, each) for each in IDENTIFIERS[:12]] == [0] * 5 + [2] + [0] * 6

    def test_who_refused_just_now_is_asked_before_the_others_are_charged(self, cluster, store, prefix):
        limiter = Limiter("1/minute", name="default", store=store)
        limiter.hit("crawler")
        assert not limiter.hit("crawler", "first")
        for identifier in IDENTIFIERS[:10]:
            assert not limiter.hit("crawler", identifier)
            assert not kept_where(cluster, f"{prefix}1:default:{identifier}")
        limiter.reset("crawler")
        assert limiter.hit("crawler", *IDENTIFIERS[:10])
        assert [spent(limiter, each) for each in ("crawler", *IDENTIFIERS[:10])] == [1] * 11

    # A refused call may have opened a window that begins with the first call.
    @pytest.mark.parametrize("kind", [kind for kind in OF_EACH if kind != "fixed_window"])
    def test_they_decide_as_memory_does(self, store, kind):
        limits = OF_EACH[kind]
        random = Random(7)
        clock = ManualClock(1_700_000_000.0)
        there, here = (
            [Limiter(limits, name=name, store=each, clock=clock) for name in ("one", "two")]
            for each in (store, MemoryStore())
        )
        for _ in range(300):
            clock.advance(random.choice([0, 0.05, 0.3]))
            identifiers = random.sample(IDENTIFIERS[:6], random.randint(1, 4))
            verb, cost = random.choice(["hit", "hit", "peek", "hit_all"]), random.choice([0, 1, 1, 2, 7])
            one, other = (asked(verb, each, identifiers, cost) for each in (there, here))
            assert shown(one) == shown(other)

    @pytest.mark.parametrize("on_error", ["raise", "allow", "deny", "local"])
    def test_a_shadow_limit_cannot_be_settled_in_several_slots(self, cluster, store, prefix, on_error):
        app = Flask("shadowing")
        app.testing = True
        limiter = RateLimit(app, store=store, default_limits="5/minute", on_error=on_error)
        app.get("/")(limiter.limit("2/minute", shadow=True)(lambda: "fine"))
        with pytest.raises(StoreConfigError, match='hash_tag="prefix"') as caught:
            app.test_client().get("/")
        assert not caught.value.maybe_charged
        assert keys_of(cluster, prefix) == [0, 0, 0]

    @pytest.mark.parametrize("kind", OF_EACH)
    def test_a_refund_goes_to_all_of_them(self, store, kind):
        limiter = Limiter(OF_EACH[kind], name="default", store=store, clock=ManualClock(1_700_000_000.0))
        whole = limiter.peek("a", cost=0).remaining
        limiter.refund(limiter.hit(*IDENTIFIERS[:9], cost=2))
        assert [limiter.peek(each, cost=0).remaining for each in IDENTIFIERS[:9]] == [whole] * 9

    def test_threads_together_get_no_more_than_there_is_and_leave_nothing_else(self, store):
        limiter = Limiter("40/hour", name="default", store=store)

        def hit_from(thread: int) -> int:
            return sum(bool(limiter.hit("shared", f"own:{thread}:{i % 3}")) for i in range(30))

        with ThreadPoolExecutor(6) as pool:
            admitted = list(pool.map(hit_from, range(6)))
        assert 30 <= sum(admitted) <= 40
        # What was refused is taken back everywhere: by commands that nobody waits for.
        eventually(lambda: spent(limiter, "shared") == sum(admitted))
        for thread, count in enumerate(admitted):
            assert sum(spent(limiter, f"own:{thread}:{i}") for i in range(3)) == count


class TestCallsOfWhichASlotDoesNotAnswer:
    TIMEOUT = 0.3

    @pytest.fixture
    def cluster(self, start_cluster):
        return start_cluster(masters=3)

    @pytest.fixture
    def limiter(self, cluster, prefix):
        store = RedisStore(cluster.url(), timeout=self.TIMEOUT, prefix=prefix)
        return Limiter("100/hour", name="default", store=store)

    @pytest.fixture
    def one_each(self, cluster, prefix):
        return [owned_by(cluster, node, prefix)[0] for node in cluster.masters]

    def test_what_the_others_have_charged_is_taken_back(self, cluster, limiter, one_each):
        assert limiter.hit(*one_each)
        cluster.masters[1].pause()
        with pytest.raises(StoreTimeout) as caught:
            limiter.hit(*one_each)
        assert caught.value.maybe_charged
        assert [spent(limiter, one_each[i]) for i in (0, 2)] == [1, 1]
        cluster.masters[0].kill()
        with pytest.raises(StoreError) as caught:
            limiter.hit(*one_each[:2])
        assert caught.value.maybe_charged
        cluster.masters[1].resume()

    @pytest.mark.usefixtures("ctrl_c")
    def test_also_when_the_caller_is_interrupted(self, cluster):
        patient = Limiter(
            "100/hour", name="default", store=RedisStore(cluster.url(), timeout=PATIENCE, prefix="patient")
        )
        one_each = [owned_by(cluster, node, "patient")[0] for node in cluster.masters]
        patient.hit(*one_each)
        cluster.masters[1].pause()
        Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            patient.hit(*one_each)
        assert [spent(patient, one_each[i]) for i in (0, 2)] == [1, 1]
        cluster.masters[1].resume()

    def test_nothing_is_given_back_twice(self, cluster, limiter, one_each):
        limiter.hit(*one_each, cost=20)
        decision = limiter.hit(*one_each, cost=5)
        cluster.masters[1].kill()
        with pytest.raises(StoreError) as caught:
            limiter.refund(decision)
        assert caught.value.maybe_charged
        limiter.refund(decision)
        assert [spent(limiter, one_each[i]) for i in (0, 2)] == [20, 20]

    def test_all_slots_share_one_timeout(self, cluster, limiter, prefix):
        identifiers = [each for node in cluster.masters for each in owned_by(cluster, node, prefix)[:5]]
        decision = limiter.hit(*identifiers)
        cluster.masters[1].pause()
        began = time.monotonic()
        with pytest.raises(StoreTimeout):
            limiter.refund(decision)
        with pytest.raises(StoreTimeout):
            limiter.reset(*identifiers)
        assert time.monotonic() - began < 10 * 2 * self.TIMEOUT
        cluster.masters[1].resume()


class TestAddresses:
    def test_any_node_will_do_and_those_that_are_down_are_passed_over(self, cluster, prefix):
        for node in cluster.nodes:
            url = f"redis+cluster://127.0.0.1:1,127.0.0.1:{node.port}"
            limiter = Limiter("3/minute", store=RedisStore(url, timeout=PATIENCE, prefix=prefix), name="any")
            limiter.hit("a")
        assert spent(limiter, "a") == len(cluster.nodes)

    def test_a_server_outside_of_a_cluster_is_a_configuration_error(self, redis_server):
        url = f"redis+cluster://127.0.0.1:{redis_server.port}"
        with pytest.raises(StoreConfigError, match="redis://"):
            Limiter("3/minute", name="default", store=RedisStore(url, timeout=PATIENCE)).hit("a")

    def test_a_node_of_a_cluster_taken_for_a_server_is_a_configuration_error(self, cluster, prefix):
        store = RedisStore(cluster.masters[0].tcp_url(), timeout=PATIENCE, prefix=prefix)
        limiter = Limiter("3/minute", name="default", store=store)
        [elsewhere, *_] = owned_by(cluster, cluster.masters[1], prefix)
        with pytest.raises(StoreConfigError, match=r"redis\+cluster://"):
            limiter.hit(elsewhere)

    def test_password_and_copies(self, start_cluster, prefix):
        cluster = start_cluster(password="s3cret", masters=2)
        store = RedisStore(cluster.url(), timeout=PATIENCE, prefix=prefix)
        for copied in (store, pickle.loads(pickle.dumps(store))):
            limiter = Limiter("5/minute", name="default", store=copied)
            for identifier in IDENTIFIERS[:10]:
                assert limiter.hit(identifier)
        assert spent(limiter, IDENTIFIERS[0]) == 2
        wrong = RedisStore(cluster.url().replace("s3cret", "wr0ng"), timeout=PATIENCE)
        with pytest.raises(StoreConfigError, match="WRONGPASS") as caught:
            Limiter("5/minute", name="default", store=wrong).hit("a")
        assert "wr0ng" not in str(caught.value)


class TestMovingSlots:
    def test_a_call_whose_keys_are_apart_waits_until_they_are_together(self, cluster, prefix):
        url = f"{cluster.url()}?hash_tag=policy"
        limiter = Limiter("10/minute", name="default", store=RedisStore(url, timeout=0.3, prefix=prefix))
        patient = Limiter("10/minute", name="default", store=RedisStore(url, timeout=PATIENCE, prefix=prefix))
        slot = cluster.slot_of(f"{{{prefix}1:default}}:x")
        source = cluster.owner_of(slot)
        target = next(node for node in cluster.masters if node is not source)
        limiter.hit("stays", "moves")
        with ThreadPoolExecutor(1) as pool:
            with cluster.migrating(slot, target):
                cluster.move_key(f"{{{prefix}1:default}}:moves", source, target)
                with pytest.raises(StoreUnavailable, match="TRYAGAIN") as caught:
                    limiter.hit("stays", "moves")
                assert not caught.value.maybe_charged
                before = source.times_asked("evalsha")
                waiting = pool.submit(patient.hit, "stays", "moves")
                eventually(lambda: source.times_asked("evalsha") >= before + 3)
                assert not waiting.done()
            assert waiting.result()
        assert [spent(patient, each) for each in ("stays", "moves")] == [2, 2]

    @pytest.mark.parametrize("is_under_way", [False, True])
    @pytest.mark.parametrize("ends", [False, True])
    def test_what_is_left_of_a_lease_follows(self, cluster, prefix, is_under_way, ends):
        window = FixedWindow(10_000, per=3600)
        store = RedisStore(cluster.url(), timeout=PATIENCE, prefix=prefix, lease=10 if ends else 0.3)
        limiter = Limiter(window, name="default", store=store)
        strict = Limiter(window, name="default", store=RedisStore(cluster.url(), prefix=prefix))
        spent, key = 0, f"{prefix}1:default:a"
        while limiter.stats()["held"] < 20:
            spent += limiter.hit("a").allowed
        slot = cluster.slot_of(key)
        source = cluster.owner_of(slot)
        target = next(node for node in cluster.masters if node is not source)
        with cluster.migrating(slot, target):
            cluster.move_key(key, source, target)
            if is_under_way and ends:
                store.close()
        if not ends:
            time.sleep(0.35)
            for _ in range(3):
                spent += limiter.hit("a").allowed
        store.close()
        assert 10_000 - strict.peek("a", cost=0).remaining == spent
        assert limiter.stats()["lapsed"] == 0


def test_many_calls_at_once_are_decided_on_every_node(store):
    many, loop = (Limiter("2/minute", name=name, store=store) for name in ("many", "loop"))
    rows = IDENTIFIERS * 3
    decided = many.hit_many(rows)
    assert decided.remaining.tolist() == [loop.hit(row).remaining for row in rows]
    assert decided.refused == len(IDENTIFIERS)


def test_refusals_are_believed_whatever_slot_they_are_of(cluster, prefix):
    store = RedisStore(cluster.url(), timeout=1, prefix=prefix, max_stale=60)
    limiter = Limiter("3/hour", name="api", store=store)
    while limiter.hit(IDENTIFIERS[0]):
        pass
    assert limiter.hit(*IDENTIFIERS[:6]).source == "store"
    # What it has charged others for a moment is taken back by commands that nobody waits for.
    eventually(lambda: limiter.hit(*IDENTIFIERS[:6]).source == "refusal")
    asked = limiter.stats()["asked"]
    assert {limiter.hit(*IDENTIFIERS[:6]).source for _ in range(10)} == {"refusal"}
    assert limiter.stats()["asked"] == asked
    assert limiter.hit(IDENTIFIERS[3]).remaining == 2  # of which a refused call left nothing
