"""Several limiters are waited for at once, by the laws of one: exactly, in order, and for nothing in vain."""

from __future__ import annotations

import math

import pytest

from overlimit import (
    LeakyBucket,
    Limiter,
    MemoryStore,
    StoreError,
    acquire_all,
    hit_all,
)
from servers.ports import free_port

from .waiters import PATIENCE, queued, still_waits, until, used

pytestmark = pytest.mark.only_threads

START = 1_700_000_000


@pytest.mark.every_store
def test_what_all_allow_does_not_wait_and_is_charged_as_by_hit_all(build, short, long):
    like = hit_all([(build("5/hour", name="a"), "x"), (build("5/hour", name="b"), "y", 2)])
    decision = acquire_all([(short, "x"), (long, "y", 2)])
    assert (
        (decision.allowed, decision.cost, decision.delay) == (like.allowed, like.cost, 0.0) == (True, 3, 0.0)
    )
    assert (used(short, "x"), used(long, "y")) == (1, 2)


@pytest.mark.every_store
def test_the_last_of_them_is_waited_for_to_the_microsecond_and_nothing_is_charged_before(
    call, at, short, long
):
    long.hit("y", cost=2)
    caller = call(acquire_all, [(short, "x"), (long, "y")], timeout=60)
    until(lambda: queued(long) == 1)
    at(59.999999)
    assert still_waits(caller)
    assert used(short, "x") == 0
    at(60)
    decision = caller.result(PATIENCE)
    assert decision.allowed
    assert decision.time == START + 60
    assert (used(short, "x"), used(long, "y")) == (1, 1)
    assert queued(short) == queued(long) == 0


def test_a_timeout_too_short_by_a_microsecond_is_refused_at_once_and_charges_nothing(short, long):
    long.hit("y", cost=2)
    refusal = acquire_all([(short, "x"), (long, "y")], timeout=59.999999)
    assert (refusal.status, refusal.retry_after, refusal.identifier) == ("over", 60.0, "y")
    assert used(short, "x") == 0


@pytest.mark.parametrize("timeout", [0, 5.0, None, math.inf])
def test_what_one_of_them_can_never_grant_is_refused_at_once(short, long, timeout):
    assert acquire_all([(short, "x"), (long, "y", 3)], timeout=timeout).status == "never"
    assert used(short, "x") == 0


@pytest.mark.every_store
def test_the_delay_of_one_is_waited_for_and_foreseen(build, call, at, long):
    slow = build(LeakyBucket(1, per=10, capacity=5), name="slow")
    slow.hit("x", cost=3)
    charges = [(slow, "x"), (long, "y")]
    assert acquire_all(charges, timeout=29.999999).status == "over"
    assert used(long, "y") == 0
    caller = call(acquire_all, charges, timeout=30)
    until(lambda: used(long, "y") == 1)
    at(29.999999)
    assert still_waits(caller)
    at(30)
    assert caller.result(PATIENCE).delay == 30.0


@pytest.mark.every_store
def test_a_refund_to_either_lets_in_at_once_and_the_charge_is_refunded_whole(call, short, long):
    charged = long.hit("y", cost=2)
    caller = call(acquire_all, [(short, "x"), (long, "y")], timeout=None)
    until(lambda: queued(long) == 1)
    long.refund(charged)
    decision = caller.result(PATIENCE)
    assert decision.time == START
    long.refund(decision)
    assert used(short, "x") == used(long, "y") == 0


@pytest.mark.parametrize(
    ("charges", "error", "said"),
    [
        ([], ValueError, "at least one charge"),
        ("x", TypeError, "must be a tuple"),
        ([("x", "y")], TypeError, "Limiter"),
        (5, TypeError, "list of tuples"),
        ([("short", "x"), ("short", "x")], ValueError, "occur twice"),
        ([("short", "")], ValueError, "empty"),
        ([("short", 5)], TypeError, "str or bytes"),
        ([("short", "x", -1)], ValueError, "cost"),
        ([("short", "x"), ("elsewhere", "x")], ValueError, "different ones"),
        ([("short", "x"), ("by another clock", "x")], ValueError, "different clocks"),
    ],
    ids=range(10),
)
def test_wrong_charges_are_the_errors_of_hit_all_also_while_others_wait(
    build, enqueue, short, clock, charges, error, said
):
    limiters = {
        "short": short,
        "elsewhere": build("5/hour", name="e", store=MemoryStore()),
        "by another clock": build("5/hour", name="c", clock=None),
    }
    short.hit("x")
    enqueue(short, "x", timeout=None)
    if isinstance(charges, list):
        charges = [(limiters.get(charge[0], charge[0]), *charge[1:]) for charge in charges]
    for decide in (hit_all, acquire_all):
        with pytest.raises(error, match=said):
            decide(charges)
    assert queued(short) == 1
    clock.advance(10)


def test_charges_are_one_list(short):
    with pytest.raises(TypeError, match="one list of tuples"):
        acquire_all((short, "x"), (short, "y"), 5)
    assert used(short, "x") == 0


def test_charges_may_come_from_a_generator(short, long):
    assert acquire_all((limiter, "x") for limiter in (short, long))
    assert used(short, "x") == used(long, "x") == 1


def test_a_store_that_fails_is_an_error_or_what_on_error_says():
    url = f"redis://127.0.0.1:{free_port()}/0?timeout=0.2"
    one, other = (Limiter("5/hour", name=name, store=url) for name in "ab")
    with pytest.raises(StoreError):
        acquire_all([(one, "x"), (other, "y")])
    denying = Limiter("5/hour", name="c", store=url, on_error="deny")
    decision = acquire_all([(denying, "x")], timeout=0.05)
    assert (decision.allowed, decision.source) == (False, "error")
