"""on_error="local": while its store fails a process grants its share of the limits, and not a hit more."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import programs
from overlimit import FixedWindow, Limit, Limiter, ManualClock, MemoryStore, Penalty, RedisStore, TokenBucket
from overlimit.stores.memory import local_fallback_of

from .answers import answer_of, expected_of
from .oracle import Oracle, OracleDecision
from .outages import NOWHERE, SHORT, eventually, frozen
from .strategies import (
    LAST_US,
    START_US,
    costs,
    durations_of,
    examples,
    identifiers,
    limits,
    moves,
    penalties,
    renumbered,
)


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

    def test_of_a_continuous_rate_is_kept_to_the_fraction(self):
        clock = ManualClock(1_700_000_000)
        limiter = cut_off(TokenBucket(1, per=1, burst=4), local_share=0.3, clock=clock)
        assert [bool(limiter.hit("a")) for _ in range(2)] == [True, False]
        admitted = 0
        for _ in range(1000):
            clock.advance(0.1)
            admitted += bool(limiter.hit("a"))
        assert 29 <= admitted <= 30

    def test_is_refused_where_the_limit_is_0(self):
        assert cut_off("0/minute", local_share=0.5).hit("a").status == "never"

    def test_shows_its_own_limits_in_the_decision(self):
        limiter = cut_off([FixedWindow(10, 60), FixedWindow(30, 3600)], name="api", local_share=0.5)
        decision = limiter.hit("a", b"b")
        rows = [(row.identifier, row.limit, row.policy, row.remaining) for row in decision.details]
        assert rows == [
            ("a", FixedWindow(5, 60), "api", 4),
            ("a", FixedWindow(15, 3600), "api", 14),
            (b"b", FixedWindow(5, 60), "api", 4),
            (b"b", FixedWindow(15, 3600), "api", 14),
        ]
        assert (decision.limit, decision.identifier) == (FixedWindow(5, 60), "a")
        assert limiter.limits == (FixedWindow(10, 60), FixedWindow(30, 3600))


class Pair:
    """A policy's scaled limits on the oracle, and a limiter that is cut off from its store."""

    names = map("cut-off-{}".format, itertools.count())
    store = RedisStore(NOWHERE)

    def __init__(self, policy: tuple[Limit, ...], share: Fraction, penalty: Penalty | None) -> None:
        self.now, self.share = START_US, share
        self.clock = ManualClock(start=START_US / 1e6)
        name = next(self.names)
        self.oracle = Oracle(self.scaled(policy), name, penalty=penalty)
        self.limiter = Limiter(
            list(policy),
            name=name,
            store=self.store,
            clock=self.clock,
            penalty=penalty,
            on_error="local",
            local_share=share,
        )
        self.made: list[tuple[OracleDecision, Any]] = []

    def scaled(self, policy: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return tuple(limit.scaled(self.share) for limit in policy)

    def move(self, us: int) -> None:
        self.now = min(max(self.now + us, self.oracle.settled_from, 0), LAST_US)
        self.clock.set(self.now / 1e6)

    def ask(self, kind: str, who: list[Any], cost: int) -> None:
        decision = getattr(self.oracle, kind)(self.now, who, cost)
        answer = getattr(self.limiter, kind)(*who, cost=cost)
        assert answer_of(answer) == expected_of(decision) | {"source": "local"}
        if kind == "hit":
            self.made.append((decision, answer))

    def refund(self) -> None:
        if self.made:
            decision, answer = self.made[-1]
            self.oracle.refund(self.now, decision)
            self.limiter.refund(answer)

    def update(self, policy: tuple[Limit, ...]) -> None:
        self.oracle.update(self.scaled(policy))
        self.limiter.update(list(policy))


shares = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(3, 10), Fraction(1, 3), Fraction(1, 100)])
steps = st.lists(
    st.tuples(
        st.sampled_from(["hit"] * 6 + ["peek", "refund", "update"]),
        st.lists(identifiers, min_size=1, max_size=3),
        costs,
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.longer_in_prove
@examples(40)
@given(
    policy=st.lists(limits, min_size=1, max_size=3).map(tuple),
    share=shares,
    penalty=st.none() | penalties,
    steps=steps,
    data=st.data(),
)
def test_a_limiter_that_is_cut_off_answers_as_the_oracle_of_the_scaled_limits(
    policy, share, penalty, steps, data
):
    pair = Pair(policy, share, penalty)
    for kind, who, cost in steps:
        pair.move(data.draw(moves(durations_of(policy))))
        if kind == "refund":
            pair.refund()
        elif kind == "update":
            pair.update(tuple(data.draw(renumbered(limit)) for limit in policy))
        else:
            pair.ask(kind, who, cost)


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

    def test_state_is_bounded_as_in_any_memory_store(self):
        store = RedisStore(NOWHERE)
        limiter = cut_off("3/minute", store=store)
        for number in range(100):
            limiter.hit(f"user:{number}")
        fallback = local_fallback_of(store)
        assert len(fallback) == 100
        assert repr(fallback) == repr(MemoryStore())

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

    def test_a_store_in_memory_needs_nobody_in_its_place(self, clock):
        store = MemoryStore()
        limiter = Limiter(
            "1/minute", name="default", store=store, clock=clock, on_error="local", local_share=0.5
        )
        assert [limiter.hit("a").source, limiter.hit("a").source] == ["store", "store"]
        limiter.reset("a")
        limiter.reset_all()
        assert len(store) == 0
