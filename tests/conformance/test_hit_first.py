"""Several budgets in a row: the first that admits is charged, and no other."""

from __future__ import annotations

import asyncio
import pickle
from itertools import product

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    SlidingLog,
    StoreError,
    acquire_first,
    aio,
    hit_all,
    hit_first,
)
from overlimit.aio import AsyncLimiter

NOWHERE = "unix:///nowhere/redis.sock"


def awaited(entry):
    if isinstance(entry, list):
        return [awaited(each) for each in entry]
    if isinstance(entry, tuple) and isinstance(entry[0], Limiter):
        return (AsyncLimiter._of(entry[0]), *entry[1:])
    return entry


def hit_first_by_a_task(entries):
    return asyncio.run(aio.hit_first(awaited(entries)))


ASKED = pytest.mark.parametrize("ask", [hit_first, hit_first_by_a_task], ids=["threads", "tasks"])
pytestmark = pytest.mark.only_threads


def left(*pairs):
    return [limiter.peek(identifier, cost=0).remaining for limiter, identifier in pairs]


@pytest.fixture
def plan(build):
    return build(FixedWindow(2, 60), name="plan")


@pytest.fixture
def credits(build):
    return build(FixedWindow(7, 3600), name="credits")


@ASKED
def test_the_first_that_admits_is_charged_and_no_other(ask, plan, credits):
    entries = [(plan, "ann"), (credits, "ann", 3)]
    found = [ask(entries) for _ in range(5)]
    assert [each.choice for each in found] == [0, 0, 1, 1, None]
    assert [each.cost for each in found[:4]] == [1, 1, 3, 3]
    assert [pickle.loads(pickle.dumps(each)).choice for each in found] == [0, 0, 1, 1, None]
    assert [pickle.loads(pickle.dumps(each)) == each for each in found] == [True] * 5
    assert left((plan, "ann"), (credits, "ann")) == [0, 1]
    assert found[4].retry_after == pytest.approx(60, abs=0.01)
    credits.refund(found[3])
    assert left((plan, "ann"), (credits, "ann")) == [0, 4]


@ASKED
def test_an_entry_of_several_charges_admits_or_charges_nothing(ask, plan, credits, build):
    team = build(FixedWindow(1, 60), name="team")
    entries = [[(plan, "ann"), (team, "acme")], (credits, "ann")]
    assert [ask(entries).choice for _ in range(3)] == [0, 1, 1]
    assert left((plan, "ann"), (team, "acme"), (credits, "ann")) == [1, 0, 5]


@ASKED
def test_entries_may_be_on_different_stores_and_clocks(ask, plan):
    other = Limiter(FixedWindow(1, 60), name="other", store=MemoryStore(), clock=ManualClock(5))
    assert [ask([(plan, "ann"), (other, "ann")]).choice for _ in range(4)] == [0, 0, 1, None]
    assert left((plan, "ann"), (other, "ann")) == [0, 0]


@ASKED
def test_a_call_is_told_of_once(ask, clock):
    told, store = [], MemoryStore()
    plan, credits = (
        Limiter(FixedWindow(1, per), name=name, store=store, clock=clock, on_decision=told.append)
        for name, per in (("plan", 600), ("credits", 60))
    )
    found = [ask([(plan, "ann"), (credits, "ann")]) for _ in range(3)]
    assert [(each.choice, each.details[0].policy) for each in told] == [
        (0, "plan"),
        (1, "credits"),
        (None, "credits"),
    ]
    assert told == found


@ASKED
def test_a_penalty_locks_by_the_last_entry_only(ask, build):
    plan = build(FixedWindow(1, 60), name="plan", penalty=Penalty(600))
    credits = build(FixedWindow(1, 60), name="credits", penalty=Penalty(600))
    entries = [(plan, "ann"), (credits, "ann")]
    assert [ask(entries).status for _ in range(3)] == ["ok", "ok", "over"]
    assert (plan.peek("ann").status, credits.peek("ann").status) == ("over", "locked")


@ASKED
def test_of_refusals_that_end_together_the_first_is_answered(ask, build):
    entries = [(build(FixedWindow(0, 60), name=name), "ann") for name in ("one", "two")]
    assert ask(entries).details[0].policy == "one"


@ASKED
def test_on_error_of_an_entry_answers_for_it(ask, plan):
    def failing(on_error):
        return Limiter("5000/minute", name="away", store=NOWHERE, on_error=on_error)

    assert ask([(failing("allow"), "ann"), (plan, "ann")]).choice == 0
    assert ask([(failing("local"), "ann"), (plan, "ann")]).source == "local"
    assert ask([(failing("deny"), "ann"), (plan, "ann")]).choice == 1
    assert left((plan, "ann")) == [1]
    with pytest.raises(StoreError):
        ask([(failing("raise"), "ann"), (plan, "ann")])
    assert left((plan, "ann")) == [1]
    assert ask([(plan, "bob", 3), (failing("deny"), "bob")]).source == "error"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda plan: [], "1 to 16"),
        (lambda plan: [(plan, "ann")] * 17, "1 to 16"),
        (lambda plan: (plan, "ann"), "charges must be a list"),
        (lambda plan: "ann", "must be a list"),
        (lambda plan: [(plan, "ann"), (plan, 5)], "str or bytes"),
        (lambda plan: [(plan, "ann"), (plan, "ann", -1)], "cost"),
        (lambda plan: [(plan, "ann"), []], "hit_first"),
        (lambda plan: [(plan, "ann"), [(plan, "ann"), (plan, "ann")]], "twice"),
        (lambda plan: [(plan, "ann"), (None, "ann")], "expected an? (Async)?Limiter"),
    ],
)
@ASKED
def test_wrong_entries_are_errors_before_any_is_asked(ask, plan, wrong, says):
    with pytest.raises((TypeError, ValueError), match=says):
        ask(wrong(plan))
    assert left((plan, "ann")) == [2]


# ------------------------------------------------------------------------------------------- the arithmetic

GAPS = (0, 1, 2, 4)  # microseconds
EVENTS = 5


def in_turn(entries):
    return hit_first(entries).choice


def charging_all(entries):
    found = [place for place, each in enumerate(entries) if hit_all([each])]
    return found[0] if found else None


def charging_refusals(entries):
    for place, (limiter, identifier, cost) in enumerate(entries):
        if limiter.charge(identifier, cost=cost):
            return place
    return None


def backwards(entries):
    choice = hit_first(entries[::-1]).choice
    return None if choice is None else len(entries) - 1 - choice


def all_right(choose):
    """Whether each call is charged where it should be, in all small worlds of three entries."""
    for number, gaps in enumerate(product(GAPS, repeat=EVENTS)):
        clock, store = ManualClock(1_000_000), MemoryStore()
        limiters = [
            Limiter(limit, name=f"{number % 2}-{place}", store=store, clock=clock)
            for place, limit in enumerate((SlidingLog(1, 3e-6), FixedWindow(3, 5e-6), SlidingLog(2, 7e-6)))
        ]
        entries = [(limiter, "x", cost) for limiter, cost in zip(limiters, (1, 2, 1), strict=True)]
        for gap in gaps:
            clock.advance(gap / 1e6)
            admits = [bool(limiter.peek("x", cost=cost)) for limiter, _, cost in entries]
            before = [limiter.peek("x", cost=0).remaining for limiter, *_ in entries]
            choice = choose(entries)
            if choice != (admits.index(True) if True in admits else None):
                return False
            for place, (limiter, _, cost) in enumerate(entries):
                spent = cost if place == choice else 0
                if limiter.peek("x", cost=0).remaining != before[place] - spent:
                    return False
    return True


def test_in_every_small_world_the_first_that_admits_is_charged_alone():
    assert all_right(in_turn)


@pytest.mark.parametrize("broken", [charging_all, charging_refusals, backwards])
def test_each_rule_is_needed(broken):
    assert not all_right(broken)


def test_nobody_can_wait_by_two_clocks(plan):
    later = Limiter("5/minute", name="later", clock=ManualClock(5))
    with pytest.raises(ValueError, match="clock="):
        acquire_first([(plan, "ann"), (later, "ann")])
    assert left((plan, "ann")) == [2]
