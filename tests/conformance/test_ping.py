"""What `Store.ping` answers and raises: what a call would, and nothing is written."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from overlimit import (
    Limiter,
    MemoryStore,
    RedisStore,
    SharedMemoryStore,
    StoreConfigError,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from servers.cluster import Cluster
from servers.patience import PATIENCE, eventually
from servers.sentinels import SERVICE


def failure_of(call):
    try:
        call()
    except StoreError as error:
        return error
    raise AssertionError("it did not fail")


def assert_fails_as_a_hit(store, kind):
    hit = failure_of(lambda: Limiter("5/minute", name="n", store=store).hit("a"))
    ping = failure_of(store.ping)
    assert type(hit) is type(ping) is kind
    assert str(ping).split("; calls fail at once")[0] == str(hit)


class TestAnyStore:
    def test_answers_in_seconds_and_writes_nothing(self, store):
        Limiter("5/minute", name="ping", store=store).hit("a")
        took = store.ping()
        assert isinstance(took, float)
        assert 0 <= took < PATIENCE
        assert (took == 0.0) is isinstance(store, MemoryStore)
        assert store.ping(timeout=PATIENCE) < PATIENCE
        assert Limiter("5/minute", name="ping", store=store).peek("a", cost=0).remaining == 4

    @pytest.mark.parametrize(
        ("error", "wrongs"),
        [(ValueError, [0, -1, float("nan"), float("inf"), 1e-7, []]), (TypeError, ["1", True])],
    )
    def test_refuses_a_timeout_that_is_none(self, store, error, wrongs):
        for wrong in wrongs:
            with pytest.raises(error, match="timeout must be a number of seconds above 0"):
                store.ping(wrong)


@pytest.mark.usefixtures("shared_memory")
class TestSharedMemory:
    def test_is_opened(self, shared_memory_store):
        assert not shared_memory_store.is_created
        assert shared_memory_store.ping() >= 0
        assert shared_memory_store.is_created
        assert shared_memory_store.stats()["processes"]["attached"] == 1

    def test_fails_where_calls_do(self):
        assert_fails_as_a_hit(SharedMemoryStore("/nowhere/at/all"), StoreConfigError)


class TestRedis:
    def test_a_wrong_password(self, start_redis):
        server = start_redis(password="right")
        assert RedisStore(server.tcp_url(), timeout=PATIENCE).ping() > 0
        url = server.tcp_url().replace("right", "wrong")
        assert_fails_as_a_hit(RedisStore(url, timeout=PATIENCE), StoreConfigError)

    def test_a_server_that_answers_but_writes_nothing(self, start_redis):
        server = start_redis()
        server.ask("CONFIG", "SET", "maxmemory", "1")
        store = RedisStore(server.tcp_url(), timeout=0.3)
        assert type(failure_of(store.ping)) is StoreUnavailable
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert RedisStore(server.tcp_url(), timeout=PATIENCE).ping() > 0
        server.ask("REPLICAOF", "127.0.0.1", "1")
        assert type(failure_of(RedisStore(server.tcp_url(), timeout=0.3).ping)) is StoreUnavailable

    def test_the_permissions_of_calls_suffice(self, redis_server, prefix):
        rules = [f"~{prefix}1:*", "+evalsha", "+eval", "+get", "+set", "+setrange", "+time"]
        with closing(redis_server.client()) as admin:
            admin.execute_command("ACL", "SETUSER", prefix, "on", ">secret", *rules)
        try:
            url = redis_server.tcp_url().replace("://", f"://{prefix}:secret@")
            assert RedisStore(url, timeout=PATIENCE, prefix=prefix).ping() > 0
            elsewhere = RedisStore(url, timeout=PATIENCE, prefix="elsewhere")
            assert_fails_as_a_hit(elsewhere, StoreConfigError)
        finally:
            with closing(redis_server.client()) as admin:
                admin.acl_deluser(prefix)


class TestASilentServer:
    @pytest.fixture
    def silent(self, start_redis):
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=PATIENCE)
        store.ping()
        server.pause()
        yield store
        server.resume()

    def test_is_waited_for_as_long_as_the_timeout(self, silent):
        began = time.monotonic()
        with pytest.raises(StoreTimeout, match=r"timeout=0\.2"):
            silent.ping(timeout=0.2)
        assert 0.2 <= time.monotonic() - began < 2


class TestSentinel:
    def test_asks_the_master_that_they_name(self, start_sentinels):
        watched = start_sentinels()
        store = RedisStore(watched.url, timeout=PATIENCE)
        assert store.ping() > 0
        watched.master.pause()
        with pytest.raises(StoreTimeout):
            store.ping(0.2)
        watched.master.resume()
        unknown = RedisStore(watched.url.replace(SERVICE, "unknown"), timeout=PATIENCE)
        assert_fails_as_a_hit(unknown, StoreConfigError)


class TestCluster:
    def test_asks_each_node_that_owns_slots(self, start_cluster, prefix):
        cluster: Cluster = start_cluster(masters=3)
        store = RedisStore(cluster.url(), timeout=PATIENCE, prefix=prefix)
        before = [node.times_asked("ping") for node in cluster.masters]
        assert store.ping() > 0
        after = [node.times_asked("ping") for node in cluster.masters]
        assert all(now > then for now, then in zip(after, before, strict=True))
        for node in cluster.masters:
            node.pause()
            with ThreadPoolExecutor(1) as pool:
                pinging = pool.submit(store.ping)
                time.sleep(0.2)
                assert not pinging.done()
                node.resume()
                assert 0 < pinging.result() < PATIENCE / 2
            node.pause()
            with pytest.raises(StoreTimeout):
                store.ping(0.05)
            node.resume()
            eventually(lambda: answers(store))


def answers(store):
    try:
        return store.ping(1) < 1
    except StoreError:
        return False
