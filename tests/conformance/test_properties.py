"""Laws that hold for every algorithm and every policy, whatever happened before: twin policies live the same
life on one store, one of them with something in it that must not show."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlimit import Limit, Limiter, ManualClock

from .answers import answer_of
from .oracle.plain import algorithm_of
from .strategies import LAST_US, START_US, durations_of, examples, moves
from .strategies import limits as any_limits

WHO = ("ip:1", "user:é")
TWINS = map("twin-{}".format, itertools.count())
KEPT = ("status", "remaining", "retry_after", "delay", "cost", "time")
SMALL_COSTS = st.sampled_from([1, 1, 1, 2, 3, 4, 9])

relaxed = examples(15)
pytestmark = pytest.mark.longer_in_prove

Policy = tuple[Limit, ...]
Step = tuple[int, str, int]  # how far the clock moves first, who calls, at which cost


def in_debt(limit: Limit) -> bool:
    return bool(getattr(limit, "debt", 0))


def keeps_a_phase(limit: Limit) -> bool:
    """Whether the first charge of an idle record decides when its windows or intervals begin."""
    return limit.algorithm == "leaky_bucket" or (
        getattr(limit, "start", "") == "first" and getattr(limit, "refill", "") != "continuous"
    )


# Close to 2^53 a window counter's doubles don't tell one unit of cost from none.
limits = any_limits.filter(lambda limit: limit.quota < 2**50)
policies = st.lists(limits, min_size=1, max_size=3).map(tuple)
policies_without_debt = st.lists(limits.filter(lambda limit: not in_debt(limit)), min_size=1, max_size=3).map(
    tuple
)
policies_without_phase = st.lists(
    limits.filter(lambda limit: not keeps_a_phase(limit)), min_size=1, max_size=3
).map(tuple)
policies_of_different_limits = st.lists(
    limits, min_size=2, max_size=4, unique_by=lambda limit: algorithm_of(limit).identity
).map(tuple)


@st.composite
def lives(draw: Any, policy: Policy, least: int = 3, most: int = 12) -> list[Step]:
    """What a policy's callers do, the clock never going back."""
    ahead = moves(durations_of(policy)).map(abs).filter(lambda us: us < START_US)
    return draw(st.lists(st.tuples(ahead, st.sampled_from(WHO), SMALL_COSTS), min_size=least, max_size=most))


def twins(store: Any, policy: Policy) -> tuple[ManualClock, Limiter, Limiter]:
    clock = ManualClock(start=START_US / 1e6)
    one, other = (Limiter(list(policy), name=next(TWINS), store=store, clock=clock) for _ in range(2))
    return clock, one, other


def move(clock: ManualClock, us: int) -> None:
    now = round(clock.now() * 1e6) + us
    assume(0 <= now <= LAST_US)
    clock.set(now / 1e6)


def live(clock: ManualClock, steps: Iterable[Step], *limiters: Limiter) -> None:
    """Let twins live the same life, and demand the same answers of them."""
    for us, who, cost in steps:
        move(clock, us)
        assert_same(*(limiter.hit(who, cost=cost) for limiter in limiters))


def assert_same(*decisions: Any) -> None:
    first, *others = map(nameless, decisions)
    assert all(other == first for other in others)


def nameless(decision: Any) -> dict[str, Any]:
    answer = answer_of(decision)
    return answer | {"details": [row | {"policy": None} for row in answer["details"]]}


def shown(limiter: Limiter, costs: Iterable[int] = (0, 1, 2, 3, 9)) -> list[tuple[Any, ...]]:
    """What everyone would be answered now, but for when state is forgotten."""
    return [
        tuple(getattr(limiter.peek(who, cost=cost), field) for field in KEPT) for who in WHO for cost in costs
    ]


@pytest.fixture
def value_of(redis_server, prefix):
    """Return a function that reads what Redis holds of an identifier in a policy."""
    with closing(redis_server.client()) as raw:
        yield lambda limiter, who: raw.get(f"{prefix}1:{limiter.name}:{who}".encode())


@relaxed
@given(policy=policies, data=st.data())
def test_a_refused_call_changes_nothing_that_anyone_sees_later(store, policy, data):
    clock, one, other = twins(store, policy)
    for us, who, cost in data.draw(lives(policy)):
        live(clock, [(us, who, cost)], one, other)
        unwanted = data.draw(st.sampled_from([0, 1, 2, 5, 2**53, 2**64]))
        if unwanted == 0 or not other.peek(*WHO, cost=unwanted):
            other.hit(*WHO, cost=unwanted)
        assert shown(one) == shown(other)


@relaxed
@given(policy=policies, data=st.data())
def test_a_refused_call_leaves_the_value_in_redis_as_it_is(redis_store, value_of, policy, data):
    clock, limiter, _ = twins(redis_store, policy)
    for us, who, cost in data.draw(lives(policy)):
        move(clock, us)
        before = value_of(limiter, who)
        if not limiter.hit(who, cost=cost):
            assert value_of(limiter, who) == before


@relaxed
@given(policy=policies_without_debt, n=st.integers(1, 9), data=st.data())
def test_a_cost_of_n_is_n_costs_of_one_at_one_instant(store, policy, n, data):
    clock, one, other = twins(store, policy)
    live(clock, data.draw(lives(policy)), one, other)
    move(clock, data.draw(moves(durations_of(policy)).map(abs)))
    at_once = one.hit(*WHO, cost=n)
    singly = [other.hit(*WHO) for _ in range(n)]
    assert bool(at_once) == all(singly)
    if at_once:
        assert (at_once.delay, at_once.remaining) == (singly[-1].delay, singly[-1].remaining)
        assert_same(one.peek(*WHO, cost=0), other.peek(*WHO, cost=0))
        live(clock, data.draw(lives(policy, most=4)), one, other)


@relaxed
@given(policy=policies_of_different_limits, data=st.data())
def test_the_order_of_limits_and_identifiers_decides_nothing(store, policy, data):
    clock, one, _ = twins(store, policy)
    other = Limiter(list(data.draw(st.permutations(policy))), name=next(TWINS), store=store, clock=clock)
    for us, who, cost in data.draw(lives(policy)):
        move(clock, us)
        callers = WHO if data.draw(st.booleans()) else (who,)
        decision, reordered = one.hit(*callers, cost=cost), other.hit(*callers[::-1], cost=cost)
        for field in (*KEPT, "allowed", "reset_after"):
            if field != "reset_after" or decision.limit == reordered.limit:
                assert getattr(decision, field) == getattr(reordered, field)
        assert by_pair(decision) == by_pair(reordered)


def by_pair(decision: Any) -> dict[Any, Any]:
    rows = answer_of(decision)["details"]
    return {(row["identifier"], row["limit"]): row | {"policy": None} for row in rows}


@relaxed
@given(policy=policies_of_different_limits, data=st.data())
def test_the_order_of_limits_does_not_show_in_redis(redis_store, value_of, policy, data):
    clock, one, _ = twins(redis_store, policy)
    other = Limiter(list(policy[::-1]), name=next(TWINS), store=redis_store, clock=clock)
    for us, who, cost in data.draw(lives(policy)):
        move(clock, us)
        assert bool(one.hit(who, cost=cost)) == bool(other.hit(who, cost=cost))
        values = [value_of(limiter, who) for limiter in (one, other)]
        assert len({value and value[8:] for value in values}) == 1  # the keys were created at different times


@relaxed
@given(policy=policies, hits=st.integers(1, 9), data=st.data())
def test_a_clock_that_goes_back_for_a_while_mints_nothing_and_burns_nothing(store, policy, hits, data):
    clock, steady, back = twins(store, policy)
    live(clock, data.draw(lives(policy)), steady, back)
    distance = data.draw(moves(durations_of(policy)).map(abs).filter(lambda us: us < START_US))
    who = data.draw(st.sampled_from(WHO))
    # A store may drop what it sees expired, so nobody looks before the clock goes back.
    move(clock, -distance)
    before = back.peek(who, cost=0).remaining
    admitted_behind = sum(bool(back.hit(who)) for _ in range(hits))
    assert back.peek(who, cost=0).remaining == max(0, before - admitted_behind)
    assert admitted_behind <= before or any(map(in_debt, policy))
    move(clock, distance)
    admitted = sum(bool(steady.hit(who)) for _ in range(hits))
    assert admitted_behind <= admitted
    assert back.peek(who, cost=0).remaining >= steady.peek(who, cost=0).remaining


@relaxed
@given(policy=policies, data=st.data())
def test_dropping_a_state_that_equals_never_seen_is_invisible_from_then_on(store, policy, data):
    clock, one, other = twins(store, policy)
    live(clock, data.draw(lives(policy)), one, other)
    waits = [row.reset_after for row in one.peek(*WHO, cost=0).details]
    move(clock, round(max(waits) * 1e6))
    assert all(row.reset_after == 0 for row in one.peek(*WHO, cost=0).details)
    other.reset(*WHO)
    live(clock, [(0, WHO[0], 1), *data.draw(lives(policy))], one, other)


@relaxed
@given(policy=policies, cost=SMALL_COSTS, data=st.data())
def test_a_hit_refunded_at_once_has_not_happened(store, policy, cost, data):
    clock, one, other = twins(store, policy)
    live(clock, data.draw(lives(policy)), one, other)
    move(clock, data.draw(moves(durations_of(policy)).map(abs)))
    other.refund(other.hit(*WHO, cost=cost))
    assert shown(one) == shown(other)


@relaxed
@given(policy=policies_without_phase, cost=SMALL_COSTS, data=st.data())
def test_where_no_phase_begins_a_hit_refunded_at_once_never_shows(store, policy, cost, data):
    clock, one, other = twins(store, policy)
    live(clock, data.draw(lives(policy)), one, other)
    other.refund(other.hit(*WHO, cost=cost))
    for us, who, later_cost in data.draw(lives(policy)):
        move(clock, us)
        assert shown(one) == shown(other)
        assert bool(one.hit(who, cost=later_cost)) == bool(other.hit(who, cost=later_cost))
