"""on_error="local": while its store fails a process grants its share of the limits, and not a hit more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import programs
from overlimit import FixedWindow, Limiter, ManualClock, RedisStore, TokenBucket

from .outages import NOWHERE, SHORT, eventually, frozen


def cut_off(limits: Any, **options: Any) -> Limiter:
    """Return a limiter whose store never answers."""
    options = {
        "name": "default",
        "store": RedisStore(NOWHERE),
        "clock": ManualClock(1_700_000_000),
        **options,
    }
    return Limiter(limits, on_error="local", **options)


class TestItsShare:
    def test_of_several_processes_is_together_the_limit_and_no_more(self):
        processes = [cut_off(FixedWindow(100, 60), local_share=0.25) for _ in range(4)]
        assert sum(bool(each.hit("a")) for each in processes for _ in range(100)) == 100


class TestAnOutage:
    @pytest.fixture
    def server(self, start_redis):
        return start_redis()

    @pytest.fixture
    def limiter(self, server, clock):
        store = RedisStore(server.tcp_url(), timeout=5.0)
        return Limiter(
            FixedWindow(10, 3600), name="default", store=store, clock=clock, on_error="local", local_share=0.3
        )

    def ask(self, limiter, source, calls=1):
        """Return what remains after each of so many hits, the first of them once the source is as it was."""
        eventually(lambda: limiter.peek("a").source, lambda answered: answered == source)
        decisions = [limiter.hit("a") for _ in range(calls)]
        assert {each.source for each in decisions} == {source}
        return [each.remaining if each else None for each in decisions]

    def test_of_silence_counts_here_what_the_server_may_have_counted_too(self, server, clock):
        store = RedisStore(server.tcp_url(), timeout=SHORT)
        limiter = Limiter(FixedWindow(10, 3600), name="default", store=store, clock=clock, on_error="local")
        eventually(lambda: limiter.peek("a").source, lambda answered: answered == "store")
        with frozen(server):
            assert limiter.hit("a").source == "local"
            assert limiter.peek("a", cost=0).remaining == 9
        assert (
            9
            <= eventually(lambda: limiter.peek("a", cost=0), lambda each: each.source == "store").remaining
            <= 10
        )

    def test_in_full_traffic_admits_both_limits_in_full_and_no_more(self, server, limiter):
        admitted = {"store": 0, "local": 0}
        half_way = threading.Barrier(5, timeout=60)

        def call():
            for _ in range(2):
                for _ in range(40):
                    decision = limiter.hit("a")
                    admitted[decision.source] += bool(decision)
                half_way.wait()
                half_way.wait()

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        half_way.wait()
        assert admitted == {"store": 10, "local": 0}
        server.stop()
        half_way.wait()
        half_way.wait()
        half_way.wait()
        for thread in threads:
            thread.join()
        assert admitted == {"store": 10, "local": 3}

    def test_leaves_the_refund_of_its_decisions_to_this_process(self, server, limiter, start_redis):
        server.stop()
        assert self.ask(limiter, "local") == [2]
        charged = limiter.hit("a", cost=2)
        again = start_redis(port=server.port)
        assert self.ask(limiter, "store", 2) == [9, 8]
        limiter.refund(charged)
        limiter.refund(charged)
        assert self.ask(limiter, "store") == [7], "the store never charged it"
        again.stop()
        assert self.ask(limiter, "local", 3) == [1, 0, None]

    def test_is_of_the_calls_that_fail_alone(self, server, clock):
        store = RedisStore(server.unix_url(), timeout=5.0)
        limiter = Limiter(
            TokenBucket(5, burst=10), name="default", store=store, clock=clock, on_error="local"
        )
        sources = []
        for bytes_left in (0, 1, 0, 1, 0):
            server.ask("CONFIG", "SET", "maxmemory", bytes_left)
            sources.append(limiter.hit("a").source)
        assert sources == ["store", "local", "store", "local", "store"]
        assert limiter.peek("a", cost=0).remaining == 7

    def test_is_forgotten_by_a_reset(self, server, limiter, start_redis):
        for forget in (lambda: limiter.reset("a"), limiter.reset_all):
            server.stop()
            assert self.ask(limiter, "local", 4) == [2, 1, 0, None]
            server = start_redis(port=server.port)
            assert self.ask(limiter, "store") == [9]
            forget()
            assert self.ask(limiter, "store") == [9]


class TestHere:
    def test_limiters_of_one_store_and_name_share_counts_and_others_do_not(self, clock):
        store = RedisStore(NOWHERE)
        one, same, other = (
            cut_off(FixedWindow(3, 60), store=store, name=name, clock=clock) for name in ("n", "n", "m")
        )
        elsewhere = cut_off(FixedWindow(3, 60), name="n", clock=clock)
        assert [each.hit("a").remaining for each in (one, same, other, elsewhere)] == [2, 1, 2, 2]

    def test_a_forked_child_goes_on_by_itself_from_what_its_parent_has_counted(self):
        script = """
            import os, sys
            from overlimit import FixedWindow, Limiter
            limiter = Limiter(FixedWindow(5, 3600), name="default", store=sys.argv[1], on_error="local")
            print(*(limiter.hit("a").remaining for _ in range(2)), flush=True)
            if os.fork() == 0:
                print(*(limiter.hit("a").remaining for _ in range(2)), limiter.stats()["local"], flush=True)
                os._exit(0)
            os.wait()
            print(limiter.hit("a").remaining, limiter.stats()["local"])
        """
        done = programs.run(script, NOWHERE)
        assert done.stdout.splitlines() == ["4 3", "2 1 2", "2 3"]
        assert "which a forked process does not share" not in done.stderr
