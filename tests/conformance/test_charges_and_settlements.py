"""Charges that are never refused, and calls that are settled at what they turned out to cost."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    StoreError,
    StoreTimeout,
    TokenBucket,
    _core,
    hit_all,
    peek_all,
)
from overlimit.waiting import wait_queues
from servers.patience import eventually

from .answers import left
from .outages import PATIENCE, frozen

DAY = 86_400
LIMITS = {
    "fixed_window": FixedWindow(10, DAY),
    "sliding_window": SlidingWindow(10, DAY),
    "sliding_log": SlidingLog(10, DAY),
    "sliding_window_counter": SlidingWindowCounter(10, DAY),
    "token_bucket": TokenBucket(10, DAY),
    "interval": TokenBucket(10, DAY, refill="interval"),
    "leaky_bucket": LeakyBucket(4, DAY, capacity=6),
}
OWING = [
    TokenBucket(10, DAY, debt=math.inf),
    TokenBucket(10, DAY, refill="interval", debt=math.inf),
    TokenBucket(10, DAY, refill="interval", start="epoch", debt=math.inf),
]
EACH = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)


@pytest.fixture
def server(start_redis):
    return start_redis()


# ------------------------------------------------------------------------------------------------- charge


def test_wrong_arguments_charge_nothing(build):
    limiter = build("5/minute")
    for wrong in (-1, 1.5, True, "1"):
        with pytest.raises((ValueError, TypeError)):
            limiter.charge("a", cost=wrong)
    with pytest.raises(ValueError, match="at least one identifier"):
        limiter.charge()
    with pytest.raises(TypeError):
        limiter.charge("a", patience=1)
    assert left(limiter) == 5


# Transactions about a value of 160 kB, ten thousand times, take SQLite seconds and PostgreSQL minutes.
@pytest.mark.check
@pytest.mark.parametrize(
    "store",
    ["memory", "shared_memory", "redis", "values", "sqlite"],
    indirect=True,
)
def test_a_log_of_ten_thousand_entries_merges_its_oldest(build, at):
    limiter = build(SlidingLog(3, 100_000))
    for second in range(10_002):
        at(second)
        limiter.charge("a")
    at(100_001)
    assert limiter.peek("a", cost=0).retry_after == 100_000 + 9_998 - 100_001
    assert limiter.charge("b").remaining == 2
    at(100_000 + 9_998)
    assert left(limiter) == 0
    at(100_000 + 9_999)
    assert left(limiter) == 1


def test_charges_are_announced_and_settlements_are_not(build):
    heard = []
    limiter = build("5/minute", on_decision=heard.append)
    charged = limiter.charge("a", cost=9)
    limiter.settle(charged, 3)
    assert heard == [charged]


def test_a_charge_says_when_the_same_would_pass_once_more(build, at):
    """By every limit, also one that had room for this one, and of who is locked, for less long."""
    limiter = build([FixedWindow(1, 10), FixedWindow(2, 60)])
    assert limiter.charge("a").retry_after == 0
    limiter.hit("b")
    limiter.lock("b", 5)
    for charged, status in ((limiter.charge("a"), "over"), (limiter.charge("b"), "locked")):
        assert (charged.status, charged.retry_after, charged.reset_after) == (status, 60, 60)
        assert charged.limit == FixedWindow(2, 60)
        assert [row.retry_after for row in charged.details] == [10, 60]
    at(59.999_999)
    assert not limiter.peek("a", "b")
    at(60)
    assert limiter.peek("a", "b")


# ------------------------------------------------------------------------------------------------- settle


@EACH
def test_it_is_settled_once_and_for_all(build, limit):
    limiter = build(limit)
    decision = limiter.hit("a", cost=4)
    settled = limiter.settle(decision, 6)
    for _ in range(2):
        assert limiter.settle(decision, 1) is decision
        assert limiter.settle(settled, 1) is settled
        limiter.refund(decision)
        limiter.refund(settled)
    assert left(limiter) == 4
    limiter.refund(other := limiter.hit("a"))
    assert limiter.settle(other, 5) is other
    assert left(limiter) == 4


def test_what_charged_nothing_comes_back_as_it_is(build):
    limiter = build("5/minute")
    limiter.hit("a", cost=5)
    limiter.refund(refunded := limiter.hit("b", cost=0))
    decisions = [
        limiter.hit("a"),
        limiter.hit("b", cost=9),
        limiter.peek("b", cost=3),
        limiter.peek("b", cost=0),
        peek_all([(limiter, "b", 0)]),
        limiter.peek_many(["b"], cost=0)[0],
        pickle.loads(pickle.dumps(limiter.hit("b", cost=0))),
        refunded,
        copy.copy(limiter.hit("c")),
        Limiter("1/minute", name="gone", store="redis://127.0.0.1:1", on_error="allow").hit("b"),
    ]
    for decision in decisions:
        assert limiter.settle(decision, 3) is decision
    assert (left(limiter), left(limiter, "b")) == (0, 5)


def test_a_call_of_cost_0_that_costs_nothing_is_answered_as_one_more(build, at):
    limiter, other = build("5/minute"), build("7/minute", name="other")
    at(10)
    limiter.hit("a", cost=2)
    decisions = [
        limiter.hit("a", cost=0),
        limiter.hit("b", "a", cost=0),
        limiter.hit_many(["a"], cost=0)[0],
        limiter.charge("a", cost=0),
        hit_all([(limiter, "a", 0)]),
        hit_all([(other, "a", 2), (limiter, "a", 0)]),
    ]
    for decision in decisions:
        settled = limiter.settle(decision, 0)
        assert (settled.status, settled.remaining, settled.cost, settled.time) == ("ok", 3, 0, decision.time)
        assert limiter.settle(decision, 3) is decision
    assert (left(limiter), left(limiter, "b"), left(other)) == (3, 5, 5)


def test_of_a_hit_all_each_limiter_settles_its_own(build):
    calls, tokens = build("9/minute", name="calls"), build("900/minute", name="tokens")
    decision = hit_all([(calls, "a", 1), (tokens, "a", 500)])
    assert tokens.settle(decision, 620).remaining == 280
    assert tokens.settle(decision, 1) is decision
    assert (left(calls), left(tokens)) == (8, 280)
    calls.refund(decision)
    assert (left(calls), left(tokens)) == (9, 280)


def test_several_limiters_settle_what_cost_less_in_one_call_and_the_rest_in_another(build):
    one, two, three = limiters = tuple(build("90/minute", name=name) for name in ("one", "two", "three"))
    decision = hit_all(
        [(one, "a", 1), (two, "a", 5), (three, "a", 30), (build("9/minute", name="x"), "a", 1)]
    )
    for _ in range(2):
        _core._settle_more(limiters, decision, 20)
        assert [left(each) for each in limiters] == [70, 70, 60]
    for _ in range(2):
        _core._settle_rest(limiters, decision, 20)
        assert [left(each) for each in limiters] == [70, 70, 70]
    assert left(build("9/minute", name="x")) == 8


def test_charges_of_different_costs_cannot_be_settled_at_one(build):
    limiter = build("9/minute")
    decision = hit_all([(limiter, "a", 1), (limiter, "b", 3)])
    with pytest.raises(ValueError, match="different costs"):
        limiter.settle(decision, 2)
    assert limiter.settle(decision, 0).remaining == 9
    assert (left(limiter), left(limiter, "b")) == (9, 9)


def test_wrong_arguments_settle_nothing(build):
    limiter = build("9/minute")
    decision = limiter.hit("a", cost=4)
    for wrong in (-1, 1.5, True, None):
        for each in (decision, limiter.hit("a", cost=10), limiter.peek("a")):
            with pytest.raises((ValueError, TypeError)):
                limiter.settle(each, wrong)
    with pytest.raises(TypeError, match="expected a Decision"):
        limiter.settle("a", 1)
    with pytest.raises(ValueError, match="other policies"):
        build("9/minute", name="other").settle(decision, 1)
    assert limiter.settle(decision, 1).remaining == 8


def test_of_many_threads_one_settles(build):
    limiter = build("1000/day")
    decision = limiter.hit("a", cost=100)
    with ThreadPoolExecutor(8) as pool:
        settled = list(pool.map(lambda _: limiter.settle(decision, 130), range(64)))
    assert sum(each is not decision for each in settled) == 1
    assert left(limiter) == 870


def test_less_wakes_who_waits(store):
    limiter = Limiter("10/day", name="waited-for", store=store)
    decision = limiter.hit("a", cost=10)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(limiter.acquire, "a", timeout=None)
        eventually(lambda: wait_queues().by_family)
        limiter.settle(decision, 9)
        assert waiting.result(PATIENCE).allowed


@pytest.mark.parametrize("huge", [2**53 - 1, 2**53 - 2, 10**30])
@pytest.mark.parametrize("limit", [*LIMITS.values(), *OWING], ids=repr)
def test_what_has_saturated_is_never_given_back_more_than_it_was(store, limit, huge):
    limiter = Limiter(limit, name="huge", store=store, clock=ManualClock(100.5))
    limiter.charge("a", cost=7)
    limiter.refund(limiter.charge("a", cost=huge))
    assert left(limiter) <= 3
    limiter.settle(limiter.charge("a", cost=huge), 1)
    assert left(limiter) <= 3


# ------------------------------------------------------------------------------------- stores that fail


@pytest.mark.parametrize("cost", [1, 9])
def test_what_nobody_has_heard_can_be_settled_again(server, clock, cost):
    store = RedisStore(server.tcp_url(), timeout=0.2)
    limiter = Limiter("20/minute", name="p", store=store, clock=clock)
    decision = limiter.hit("a", cost=4)
    clock_of = Limiter("20/minute", name="p", store=RedisStore("redis://127.0.0.1:1"), clock=clock)
    with pytest.raises(StoreError):
        clock_of.settle(decision, cost)
    assert limiter.settle(decision, cost).remaining == 20 - cost


@pytest.mark.parametrize("cost", [1, 9])
@pytest.mark.parametrize("on_error", ["raise", "allow", "local"])
def test_what_somebody_may_have_heard_counts_as_settled(server, clock, cost, on_error):
    store = RedisStore(server.tcp_url(), timeout=0.2)
    limiter = Limiter("20/minute", name="p", store=store, clock=clock, on_error=on_error)
    decision = limiter.hit("a", cost=4)
    with frozen(server):
        if on_error == "raise":
            with pytest.raises(StoreTimeout):
                limiter.settle(decision, cost)
        else:
            answered = limiter.settle(decision, cost)
            assert answered.source == {"allow": "error", "local": "local"}[on_error]
            assert answered.cost == cost
    patient = Limiter(
        "20/minute", name="p", store=RedisStore(server.tcp_url(), timeout=PATIENCE), clock=clock
    )
    before = left(patient)
    assert before in (16, 20 - cost)
    assert patient.settle(decision, 2) is decision
    assert left(patient) == before


def test_what_was_charged_by_the_local_fallback_is_settled_there(clock):
    limiter = Limiter("20/minute", name="p", store="redis://127.0.0.1:1", clock=clock, on_error="local")
    decision = limiter.charge("a", cost=8)
    settled = limiter.settle(decision, 3)
    assert (settled.source, settled.remaining) == ("local", 17)
    assert limiter.settle(limiter.charge("a", cost=2), 5).remaining == 12


# ----------------------------------------------------------------------------------------------- peek_all


def test_peek_all_is_not_announced_and_refuses_what_hit_all_refuses(build):
    heard = []
    limiter = build("3/minute", on_decision=heard.append)
    peek_all([(limiter, "a")])
    assert heard == []
    with pytest.raises(ValueError, match="at least one charge"):
        peek_all([])
    with pytest.raises(ValueError, match="occur twice"):
        peek_all([(limiter, "a"), (limiter, "a")])
