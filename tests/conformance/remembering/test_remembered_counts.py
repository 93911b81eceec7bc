"""Counts that come back (``remember``, ``docs/semantics.md``), on real servers that forget."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.all_algorithms import CALENDAR, of_each_algorithm
from conformance.answers import left
from overlimit import (
    Limiter,
    ManualClock,
    RedisStore,
    SlidingLog,
    hit_all,
)
from programs import run
from servers.patience import PATIENCE, eventually

from .limiters import admitted, limiter_on

ALL = of_each_algorithm(5, 3600) | CALENDAR


class TestAServerThatForgets:
    @pytest.mark.parametrize("kind", ALL)
    def test_loses_no_count_of_any_algorithm(self, store, forget, kind):
        limiter = limiter_on(store, ALL[kind])
        most = left(limiter)
        for spent in range(1, most + 1):
            assert limiter.hit("a").remaining == most - spent
            assert forget() == 1
        assert not limiter.hit("a")
        assert forget() == 1  # what is read is restored as well
        assert left(limiter) == 0

    def test_is_counted_and_warned_of_once_in_a_while(self, start_redis, caplog):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=PATIENCE, remember=600)
        limiter = limiter_on(store, "100/hour")
        hit_all([(limiter, "a"), (Limiter("9/day", name="other", store=store), "a")])
        limiter.hit("b")
        assert limiter.stats()["restored"] == 0
        server.ask("FLUSHALL")
        with caplog.at_level(logging.WARNING, logger="overlimit"):
            assert left(limiter) == 99
            assert [limiter.stats()["restored"], len(caplog.records)] == [1, 1]
            assert limiter.hit_many(["a", "b", "b"]).remaining.tolist() == [98, 98, 97]
        assert limiter.stats()["restored"] == 2
        [record] = caplog.records
        assert "RedisStore('unix://" in record.getMessage()
        assert "had lost counts, as by FLUSHALL" in record.getMessage()
        assert "back those of 1 key (remember)" in record.getMessage()

    def test_is_not_what_a_new_connection_finds(self, store, redis_server):
        limiter = limiter_on(store)
        limiter.hit("a")
        for _ in range(3):
            store.close()
            limiter.hit("a")
        assert limiter.stats()["asked"] > limiter.stats()["calls"]  # it is made sure that nothing was lost
        assert limiter.stats()["restored"] == 0

    @pytest.mark.parametrize("losses", [1, 4, 12])
    def test_admits_as_many_to_threads(self, store, raw, prefix, losses):
        for identifier in (f"{i}" for i in range(8)):
            limiter = limiter_on(store, SlidingLog(60, 3600))
            totals = [admitted(limiter, 1, identifier)]
            threads = [
                threading.Thread(target=lambda: totals.append(admitted(limiter, 30, identifier)))  # noqa: B023
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for _ in range(losses):  # fewer than the times that a call is asked again
                time.sleep(0.002)
                raw.delete(f"{prefix}1:api:{identifier}")
            for thread in threads:
                thread.join()
            # The first call through a new connection may count twice.
            assert 60 - len(threads) < sum(totals) <= 60

    @pytest.mark.parametrize(
        "commands",
        [
            [("FLUSHALL",), ("SCRIPT", "FLUSH")],
            [("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")],
            [],
        ],
        ids=["is flushed with its scripts", "evicts", "is restarted"],
    )
    def test_that(self, start_redis, prefix, commands):
        server = start_redis(options={"maxmemory-policy": "allkeys-random"})
        limiter = limiter_on(RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, remember=60))
        assert admitted(limiter, 3) == 3
        if not commands:
            server.kill()
            server.restart()
        for command in commands:
            server.ask(*command)
            eventually(lambda: server.ask("DBSIZE") == 0)
        assert admitted(limiter, 9) == 2

    def test_of_one_of_several_keys(self, store, raw, prefix):
        limiter = limiter_on(store)
        assert admitted(limiter, 3, "a", "b") == 3
        raw.delete(f"{prefix}1:api:b")
        decision = limiter.hit("a", "b")
        assert [row.remaining for row in decision.details] == [1, 1]
        raw.delete(f"{prefix}1:api:a")
        assert admitted(limiter, 9, "a", "b") == 1

    def test_in_a_cluster(self, start_cluster, prefix):
        cluster = start_cluster()
        limiter = limiter_on(RedisStore(cluster.url(), timeout=PATIENCE, prefix=prefix, remember=60))
        names = [f"id:{i}" for i in range(4)]
        for spent in range(1, 6):
            assert limiter.hit(*names).remaining == 5 - spent
            for node in cluster.masters:
                node.ask("FLUSHALL")
        assert not limiter.hit(*names)


class TestManyRows:
    def test_are_admitted_as_if_nothing_had_been_forgotten(self, store, forget):
        limiter = limiter_on(store)
        rows = ["a", "b", "a", "c"]
        total = 0
        for _ in range(6):
            total += int(limiter.hit_many(rows).allowed.sum())
            assert forget() == 3
        assert total == 15
        assert [left(limiter, each) for each in "abc"] == [0, 0, 0]


class TestReplicas:
    @pytest.fixture
    def lagging(self, raw: Any, prefix: str) -> Callable[[Callable[[], Any]], None]:
        """Return a function: the server is what it was before an action, to whoever connects anew."""

        def lag(action: Callable[[], Any]) -> None:
            keys = {key: raw.get(key) for key in raw.scan_iter(f"{prefix}*")}
            action()
            for key, value in keys.items():
                raw.set(key, value, px=3_600_000)
            raw.client_kill_filter(_type="normal", skipme=True)

        return lag

    def test_that_lag_lose_nothing_either(self, store, lagging):
        limiter = limiter_on(store)
        assert limiter.hit("a")
        lagging(lambda: admitted(limiter, 2))
        assert limiter.hit("a").remaining == 1
        assert limiter.stats()["restored"] == 1
        lagging(lambda: limiter.hit("a"))
        assert not limiter.hit("a")
        assert limiter.stats()["restored"] == 2
        lagging(lambda: limiter.hit("a"))  # which changes nothing
        assert not limiter.hit("a")
        assert limiter.stats()["restored"] == 2

    def test_that_lag_and_are_promoted(self, start_redis, prefix, tmp_path):
        master = start_redis()
        replica = start_redis(replica_of=master)
        eventually(lambda: replica.ask("ROLE")[3] == b"connected")
        socket = tmp_path / "redis.sock"
        socket.symlink_to(master.socket_path)
        limiter = limiter_on(RedisStore(f"unix://{socket}", timeout=PATIENCE, prefix=prefix, remember=60))
        assert admitted(limiter, 2) == 2
        assert master.ask("WAIT", "1", "10000") == 1
        replica.ask("REPLICAOF", "NO", "ONE")
        assert admitted(limiter, 2) == 2
        moved = Path(f"{socket}.new")
        moved.symlink_to(replica.socket_path)
        os.replace(moved, socket)
        master.kill()
        assert admitted(limiter, 9) == 1

    def test_know_what_any_process_knew(self, store, elsewhere, lagging):
        here, there = limiter_on(store), limiter_on(elsewhere)
        assert here.hit("a")
        lagging(lambda: admitted(there, 3))
        assert here.hit("a").remaining == 3  # as this process was told
        assert there.hit("a").remaining <= 1
        assert admitted(here, 9) <= 1


class TestOtherProcesses:
    def test_bring_back_what_they_know(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        assert here.hit("a")
        assert admitted(there, 2) == 2
        forget()
        assert here.hit("a").remaining == 3  # it was told of one
        assert there.hit("a").remaining == 0  # it was told of three
        assert not here.hit("a")

    def test_that_know_nothing_are_told_by_those_that_do(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        assert admitted(here, 4) == 4
        forget()
        assert there.hit("a").remaining == 4
        assert here.hit("a").remaining in (0, 1)  # in an instant, and so in a cell, of their own: 0
        assert admitted(there, 9) <= 1

    def test_reset(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        assert admitted(here, 5) == 5
        there.reset("a")
        assert admitted(here, 2) == 2
        store.close()
        assert admitted(here, 2) == 2
        forget()
        assert admitted(here, 9) == 1

    def test_reset_what_has_expired_from_the_server(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        assert admitted(here, 5) == 5
        forget()
        there.reset("a")
        assert admitted(here, 9) == 5

    def test_reset_whole_policies(self, store, elsewhere):
        here, there = limiter_on(store), limiter_on(elsewhere)
        for name in "ab":
            assert admitted(here, 5, name) == 5
        there.reset_all()
        assert [left(here, name) for name in "ab"] == [5, 5]

    def test_without_remember_forget_nothing(self, store, redis_server, prefix):
        here = limiter_on(store)
        assert admitted(here, 5) == 5
        limiter_on(RedisStore(redis_server.tcp_url(), prefix=prefix, timeout=PATIENCE)).reset("a")
        assert not here.hit("a")

    def test_unlock(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        here.lock("a", 600)
        assert here.hit("a").status == "locked"
        there.unlock("a")
        store.close()  # so that this process restores what it knows
        assert here.hit("a").status == "ok"
        forget()
        assert there.hit("a").status == "ok"

    def test_give_back_what_this_one_may_restore(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        decision = there.hit("a")
        assert here.hit("a").remaining == 3
        there.refund(decision)
        assert left(there) == 4
        store.close()
        assert left(here) == 3

    def test_that_were_forked_know_nothing(self, redis_server, prefix):
        program = (
            "from overlimit import *; import os, sys, redis\n"
            f"store = RedisStore(sys.argv[1], prefix=sys.argv[2], timeout={PATIENCE}, remember=60)\n"
            "limiter = Limiter('9/hour', name='api', store=store)\n"
            "client = redis.Redis(unix_socket_path=sys.argv[3])\n"
            "print(limiter.hit('a').remaining, flush=True)\n"
            "client.delete(f'{sys.argv[2]}1:api:a')\n"
            "if os.fork() == 0:\n"
            "    print(limiter.hit('a').remaining, flush=True)\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "client.delete(f'{sys.argv[2]}1:api:a')\n"
            "print(limiter.hit('a').remaining)\n"
        )
        done = run(program, redis_server.unix_url(), prefix, str(redis_server.socket_path))
        lines = done.stdout
        assert done.stderr.count("this process has brought back those of 1 key (remember)\n") == 1
        assert lines.split() == ["8", "8", "7"]


class TestThisProcess:
    @pytest.mark.parametrize("what", ["reset", "reset_all"])
    def test_resets(self, store, forget, what):
        limiter = limiter_on(store)
        assert admitted(limiter, 5) == 5
        forget()
        getattr(limiter, what)(*["a"] * (what == "reset"))
        assert limiter.hit("a").remaining == 4
        forget()
        assert limiter.hit("a").remaining == 3

    def test_resets_by_a_store_that_does_not_remember(self, store, redis_server, prefix):
        limiter = limiter_on(store)
        assert admitted(limiter, 5) == 5
        limiter_on(RedisStore(redis_server.unix_url(), prefix=prefix, timeout=PATIENCE)).reset("a")
        assert limiter.hit("a").remaining == 4

    def test_locks(self, store, forget):
        limiter = limiter_on(store)
        limiter.lock("a", 600)
        forget()
        assert limiter.hit("a").status == "locked"
        forget()
        limiter.unlock("a")
        forget()
        assert limiter.hit("a").remaining == 4

    def test_updates(self, store, forget):
        limiter = limiter_on(store)
        assert admitted(limiter, 4) == 4
        forget()
        limiter.update(SlidingLog(7, 3600))
        assert limiter.hit("a").remaining == 2

    def test_refuses_by_what_it_knows(self, remembering, forget):
        limiter = limiter_on(remembering(max_stale=60))
        assert admitted(limiter, 6) == 5
        asked = limiter.stats()["asked"]
        forget()
        assert limiter.hit("a").source == "refusal"
        assert limiter.stats()["asked"] == asked
        assert limiter.hit("a", "b").status == "over"

    def test_counts_what_it_asked(self, store, forget):
        limiter = limiter_on(store)
        assert admitted(limiter, 2) == 2  # the first of which has opened a connection
        before = limiter.stats()["asked"]
        forget()
        assert limiter.hit("a")
        # The call, which does nothing; the counts, back; the call.
        assert limiter.stats()["asked"] - before == 3
        assert limiter.hit("a")
        assert limiter.stats()["asked"] - before == 4

    def test_restores_many_keys_at_once(self, store, prefix):
        limiter = limiter_on(store)
        names = [f"id:{i}" for i in range(200)]
        assert (limiter.hit_many(names).remaining == 4).all()
        store.close()
        assert limiter.hit("another")
        before = limiter.stats()["asked"]
        assert (limiter.hit_many(names).remaining == 3).all()
        assert limiter.stats()["asked"] - before == 2 * 200
        assert (limiter.hit_many(names).remaining == 2).all()
        assert limiter.stats()["asked"] - before == 3 * 200

    def test_remembers_as_long_as_it_is_told_to(self, remembering, forget):
        limiter = limiter_on(remembering(remember=0.05))
        assert limiter.hit("a")
        forget()
        time.sleep(0.06)
        assert limiter.hit("a").remaining == 4

    def test_remembers_nothing_by_a_clock_of_its_own(self, store, forget):
        limiter = limiter_on(store, clock=ManualClock(start=1_700_000_000))
        assert limiter.hit("a").remaining == 4
        forget()
        assert limiter.hit("a").remaining == 4


def test_off_nothing_comes_back(redis_server, prefix, forget):
    limiter = limiter_on(RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix))
    assert limiter.hit("a").remaining == 4
    forget()
    assert limiter.hit("a").remaining == 4
    limiter.reset("a")
    assert forget() == 0  # a reset leaves nothing
