"""Counts that come back (``remember``, ``docs/semantics.md``), on real servers that forget."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conformance.all_algorithms import CALENDAR, of_each_algorithm
from overlimit import (
    Limiter,
    ManualClock,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
    hit_all,
)
from overlimit.aio import AsyncLimiter
from overlimit.command_line.operating.values import decoded
from programs import run
from servers.patience import PATIENCE, eventually

from .limiters import HOUR, admitted, left, limiter_on

ALL = of_each_algorithm(5, 3600) | CALENDAR
SHORT = SlidingLog(5, 50)  # than the penalty


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
        with closing(server.client()) as client:
            client.flushall()
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

    def test_admits_no_more_than_the_limit_to_a_process_alone(self, store, forget):
        limits = [SlidingWindow(20, 3600), TokenBucket(30, 3600, refill="interval"), "100/day"]
        limiter = limiter_on(store, limits)
        total = 0
        for calls in (3, 1, 7, 0, 2, 15):
            total += admitted(limiter, calls)
            forget()
        assert total == 20

    @pytest.mark.parametrize("losses", [1, 4, 12])
    def test_admits_as_many_to_threads(self, store, client, prefix, losses):
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
                client.delete(f"{prefix}1:api:{identifier}")
            for thread in threads:
                thread.join()
            # The first call through a new connection may count twice.
            assert 60 - len(threads) < sum(totals) <= 60

    def test_that_is_restarted(self, start_redis, prefix):
        server = start_redis()
        limiter = limiter_on(RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, remember=60))
        assert admitted(limiter, 3) == 3
        server.kill()
        server.restart()
        assert admitted(limiter, 9) == 2

    def test_that_is_flushed_with_its_scripts(self, start_redis, prefix):
        server = start_redis()
        limiter = limiter_on(RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, remember=60))
        for _ in range(2):
            assert admitted(limiter, 2) == 2
            server.ask("FLUSHALL")
            server.ask("SCRIPT", "FLUSH")
        assert admitted(limiter, 9) == 1

    def test_that_evicts(self, start_redis, prefix):
        server = start_redis(options={"maxmemory-policy": "allkeys-random"})
        limiter = limiter_on(RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, remember=60))
        assert admitted(limiter, 3) == 3
        server.ask("CONFIG", "SET", "maxmemory", "1")
        eventually(lambda: server.ask("DBSIZE") == 0)
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert admitted(limiter, 9) == 2

    def test_of_one_of_several_keys(self, store, client, prefix):
        limiter = limiter_on(store)
        assert admitted(limiter, 3, "a", "b") == 3
        client.delete(f"{prefix}1:api:b")
        decision = limiter.hit("a", "b")
        assert [row.remaining for row in decision.details] == [1, 1]
        client.delete(f"{prefix}1:api:a")
        assert admitted(limiter, 9, "a", "b") == 1

    def test_of_several_policies(self, store, forget):
        pairs = [(limiter_on(store), "a"), (Limiter("3/hour", name="other", store=store), "b")]
        for _ in range(3):
            assert hit_all(pairs)
            assert forget() == 2
        assert not hit_all(pairs)

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

    def test_of_one_key_are_counted_once(self, store, forget):
        limiter = limiter_on(store, SlidingLog(100, 3600))
        assert limiter.hit("a").remaining == 99
        forget()
        assert limiter.hit_many(["a"] * 70).remaining.tolist() == list(range(98, 28, -1))
        forget()
        assert int(limiter.hit_many(["a"] * 70).allowed.sum()) == 29

    def test_of_tasks(self, store, forget):
        async def ask() -> int:
            limiter = AsyncLimiter(HOUR, name="api", store=store)
            total = 0
            for _ in range(4):
                total += sum([(await limiter.hit("a")).allowed for _ in range(2)])
                forget()
            return total

        assert asyncio.run(ask()) == 5


class TestReplicas:
    @pytest.fixture
    def lagging(self, client: Any, prefix: str) -> Callable[[Callable[[], Any]], None]:
        """Return a function: the server is what it was before an action, to whoever connects anew."""

        def lag(action: Callable[[], Any]) -> None:
            keys = {key: client.get(key) for key in client.scan_iter(f"{prefix}*")}
            action()
            for key, value in keys.items():
                client.set(key, value, px=3_600_000)
            client.client_kill_filter(_type="normal", skipme=True)

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

    def test_that_lag_are_found_by_many_rows(self, store, lagging):
        limiter = limiter_on(store)
        assert limiter.hit_many(["a", "b"]).allowed.all()
        lagging(lambda: limiter.hit_many(["a", "b"] * 2))
        assert limiter.hit_many(["a", "b"] * 3).allowed.tolist() == [True] * 4 + [False] * 2

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

    def test_unlock_what_the_server_has_lost(self, store, elsewhere, forget):
        here, there = limiter_on(store), limiter_on(elsewhere)
        here.lock("a", 600)
        forget()
        there.unlock("a")
        assert here.hit("a").status == "ok"

    def test_unlock_what_the_server_has_lost_and_keep_the_level(self, store, elsewhere, forget):
        here, there = (limiter_on(each, SHORT, penalty=Penalty([60, 600])) for each in (store, elsewhere))
        assert admitted(here, 6) == 5
        forget()
        there.unlock("a")
        assert 599 < here.hit("a").retry_after <= 600

    def test_shorten_a_lock(self, store, elsewhere):
        here, there = limiter_on(store), limiter_on(elsewhere)
        here.lock("a", 600)
        there.lock("a", 60)
        store.close()
        assert here.hit("a").retry_after < 61

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

    def test_gives_back_what_was_forgotten(self, store, forget):
        limiter = limiter_on(store, list(ALL.values())[:5])
        first, second = limiter.hit("a"), limiter.hit("a", cost=2)
        forget()
        limiter.refund(second)
        assert [row.remaining for row in limiter.peek("a", cost=0).details] == [4] * 5
        forget()
        limiter.refund(first)
        assert [row.remaining for row in limiter.peek("a", cost=0).details] == [5] * 5
        forget()
        assert left(limiter) == 5

    def test_settles_what_was_forgotten(self, store, forget):
        limiter = limiter_on(store)
        decision = limiter.hit("a", cost=3)
        forget()
        assert limiter.settle(decision, 1).remaining == 4
        forget()
        assert limiter.hit("a").remaining == 3

    def test_locks(self, store, forget):
        limiter = limiter_on(store)
        limiter.lock("a", 600)
        forget()
        assert limiter.hit("a").status == "locked"
        forget()
        limiter.unlock("a")
        forget()
        assert limiter.hit("a").remaining == 4

    def test_locks_who_went_over_a_limit(self, store, forget):
        limiter = limiter_on(store, SHORT, penalty=Penalty([60, 600]))
        assert admitted(limiter, 6) == 5
        forget()
        decision = limiter.hit("a")
        assert (decision.status, decision.retry_after > 59) == ("locked", True)
        forget()
        limiter.unlock("a")
        assert limiter.peek("a").status == "over"
        forget()
        assert 599 < limiter.hit("a").retry_after <= 600  # the next level

    def test_locks_by_hand_and_keeps_the_level(self, store, client, prefix, forget):
        limiter = limiter_on(store, penalty=Penalty([60, 600]))
        assert admitted(limiter, 6) == 5
        forget()
        limiter.lock("a", 100)
        now = int(time.time() * 1e6)
        *_, lock = decoded(client.get(f"{prefix}1:api:a")).records
        assert lock.state[2] == 2 * 1 + 1  # the first level, and by hand
        assert 99e6 < lock.state[1] - now <= 100e6
        assert lock.expires_at - lock.state[1] == 60e6

    def test_updates(self, store, forget):
        limiter = limiter_on(store)
        assert admitted(limiter, 4) == 4
        forget()
        limiter.update(SlidingLog(7, 3600))
        assert limiter.hit("a").remaining == 2

    def test_spends_leases_once(self, remembering, forget):
        limiter = limiter_on(remembering(lease=10), SlidingWindow(400, 3600))
        total = admitted(limiter, 60)
        forget()
        total += admitted(limiter, 600)
        assert limiter.stats()["leased"] > 20
        assert total <= 400

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

    def test_is_shown_without_what_is_noted_of_it(self, store, client, prefix, forget):
        limiter = limiter_on(store)
        limiter.hit("a")
        forget()
        limiter.hit("a")
        limiter.unlock("a")
        limiter.reset("b")
        shown = {name: decoded(client.get(f"{prefix}1:api:{name}")) for name in "ab"}
        now = int(time.time() * 1e6)
        assert [len(value.limits(now)) for value in shown.values()] == [1, 0]
        assert all(0 <= now - value.created_at < 60_000_000 for value in shown.values())

    def test_remembers_as_long_as_it_is_told_to(self, remembering, forget):
        limiter = limiter_on(remembering(remember=0.05))
        assert limiter.hit("a")
        forget()
        time.sleep(0.06)
        assert limiter.hit("a").remaining == 4

    def test_remembers_no_longer_than_it_counts(self, store, forget):
        limiter = limiter_on(store, SlidingLog(5, 0.05))
        assert limiter.hit("a")
        time.sleep(0.06)
        before = limiter.stats()["asked"]
        forget()
        assert limiter.hit("a").remaining == 4
        assert limiter.stats()["asked"] - before == 1

    def test_remembers_nothing_by_a_clock_of_its_own(self, store, forget):
        limiter = limiter_on(store, clock=ManualClock(start=1_700_000_000))
        assert limiter.hit("a").remaining == 4
        forget()
        assert limiter.hit("a").remaining == 4

    def test_remembers_so_many_keys(self, store, forget):
        limiter = limiter_on(store)
        names = [f"id:{i}" for i in range(4200)]
        limiter.hit_many(names)
        forget()
        remaining = limiter.hit_many(names).remaining
        assert 3000 < int((remaining == 3).sum()) <= 4096
        assert set(remaining.tolist()) == {3, 4}

    def test_remembers_who_comes_back_in_a_flood_of_others(self, store, forget):
        limiter = limiter_on(store)
        limiter.hit("before"), limiter.hit("before")
        limiter.hit_many([f"id:{i}" for i in range(9000)])
        limiter.hit("after"), limiter.hit("after")
        limiter.hit_many([f"other:{i}" for i in range(9000)])
        forget()
        assert [limiter.hit(name).remaining for name in ("before", "after")] == [2, 2]

    def test_remembers_no_large_value(self, store, forget):
        limiter = limiter_on(store, SlidingLog(400, 3600))
        limiter.hit_many(["a"] * 300)
        forget()
        assert limiter.hit("a").remaining == 399


def test_off_nothing_comes_back(redis_server, prefix, forget):
    limiter = limiter_on(RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix))
    assert limiter.hit("a").remaining == 4
    forget()
    assert limiter.hit("a").remaining == 4
    limiter.reset("a")
    assert forget() == 0  # a reset leaves nothing


@pytest.mark.parametrize("wrong", [-1, 3601, "soon", float("nan"), float("inf")])
def test_remember_is_checked(wrong):
    with pytest.raises(ValueError, match="remember must be from 0 to 3600 seconds"):
        RedisStore("redis://localhost", remember=wrong)
    with pytest.raises(ValueError, match="remember"):
        RedisStore(f"redis://localhost?remember={wrong}")


def test_remember_is_an_option_of_urls(redis_server):
    assert "remember=" in repr(RedisStore(f"{redis_server.unix_url()}&remember=2.5"))
    with pytest.raises(TypeError, match="remember"):
        RedisStore("redis://localhost", remember=True)
