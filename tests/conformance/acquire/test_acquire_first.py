"""Several budgets are waited for at once, and whichever comes first is charged; and who goes first."""

from __future__ import annotations

import asyncio

import pytest

from overlimit import FixedWindow, LeakyBucket, Limiter, StoreError, acquire_all, acquire_first, aio
from overlimit.aio import AsyncLimiter

from .waiters import PATIENCE, queued, still_waits, until, used

pytestmark = pytest.mark.only_threads

START = 1_700_000_000


@pytest.fixture
def told():
    return []


@pytest.fixture
def slow(build, told):
    return build(FixedWindow(1, 60), name="slow", on_decision=told.append)


@pytest.fixture
def quick(build, told):
    return build(FixedWindow(1, 10), name="quick", on_decision=told.append)


@pytest.mark.every_store
def test_whichever_comes_first_is_waited_for_to_the_microsecond_and_charged_alone(call, at, slow, quick):
    slow.hit("x")
    quick.hit("x")
    caller = call(acquire_first, [(slow, "x"), (quick, "x")], timeout=100)
    until(lambda: queued(slow) == queued(quick) == 1)
    at(9.999999)
    assert still_waits(caller)
    at(10)
    decision = caller.result(PATIENCE)
    assert (decision.allowed, decision.choice, decision.time) == (True, 1, START + 10)
    assert (used(slow, "x"), used(quick, "x")) == (1, 1)
    assert queued(slow) == queued(quick) == 0


@pytest.mark.every_store
def test_what_admits_at_once_does_not_wait_and_the_first_of_them_is_charged(slow, quick):
    found = [acquire_first([(slow, "x"), (quick, "x")], timeout=0) for _ in range(3)]
    assert [each.choice for each in found] == [0, 1, None]
    assert found[2].retry_after == pytest.approx(10, abs=0.01)
    assert (used(slow, "x"), used(quick, "x")) == (1, 1)


def test_a_call_is_told_of_once_however_often_it_asks(call, at, slow, quick, told):
    slow.hit("x")
    quick.hit("x")
    told.clear()
    caller = call(acquire_first, [(slow, "x"), (quick, "x")], timeout=100)
    until(lambda: queued(quick) == 1)
    at(10)
    assert told == [caller.result(PATIENCE)]
    refused = acquire_first([(slow, "x"), (quick, "x")], timeout=5)
    assert told[1:] == [refused]
    assert (refused.limit, refused.choice) == (quick.limits[0], None)


def test_a_refund_of_the_later_one_lets_it_in(call, slow, quick):
    decision = slow.hit("x")
    quick.hit("x")
    caller = call(acquire_first, [(quick, "x"), (slow, "x")], timeout=100)
    until(lambda: queued(slow) == 1)
    slow.refund(decision)
    assert caller.result(PATIENCE).choice == 1


def test_who_stood_behind_goes_on_when_it_leaves_for_the_other(call, at, slow, quick):
    slow.hit("x")
    quick.hit("x")
    first = call(acquire_first, [(slow, "x"), (quick, "x")], timeout=100)
    until(lambda: queued(quick) == 1)
    behind = call(slow.acquire, "x", timeout=100)
    until(lambda: queued(slow) == 2)
    at(10)
    assert first.result(PATIENCE).choice == 1
    assert still_waits(behind)
    at(60)
    assert behind.result(PATIENCE).allowed


def test_an_entry_that_was_given_up_holds_up_nobody(call, at, slow, quick):
    slow.hit("x")
    quick.hit("x")
    caller = call(acquire_first, [(slow, "x"), (quick, "x")], timeout=100)
    until(lambda: queued(quick) == 1)
    quick.lock("x", 1000)
    until(lambda: queued(quick) == 0)
    quick.unlock("x")
    at(10)
    assert quick.acquire("x", timeout=0)
    at(60)
    assert caller.result(PATIENCE).choice == 0


def test_who_came_first_is_served_first_by_each_of_them(call, at, slow, quick):
    quick.hit("x")
    slow.hit("x")
    first = call(quick.acquire, "x", timeout=100)
    until(lambda: queued(quick) == 1)
    second = call(acquire_first, [(quick, "x"), (slow, "x")], timeout=100)
    until(lambda: queued(quick) == 2)
    at(10)
    assert first.result(PATIENCE).time == START + 10
    assert still_waits(second)
    at(20)
    assert (second.result(PATIENCE).choice, used(slow, "x")) == (0, 1)


def test_two_entries_of_one_limit_do_not_wait_for_each_other(call, at, build):
    limiter = build(FixedWindow(3, 10), name="one")
    limiter.hit("x", cost=2)
    assert acquire_first([(limiter, "x", 2), (limiter, "x", 1)], timeout=100).choice == 1


def test_a_delay_is_waited_for(call, at, build, slow):
    slow.hit("x")
    paced = build(LeakyBucket(1, per=10, capacity=3, burst=1), name="paced")
    paced.hit("x")
    caller = call(acquire_first, [(slow, "x"), (paced, "x")], timeout=100)
    until(lambda: used(paced, "x") == 2)
    assert still_waits(caller)
    at(10)
    assert caller.result(PATIENCE).choice == 1
    assert used(slow, "x") == 1


@pytest.mark.parametrize("is_task", [False, True], ids=["thread", "task"])
def test_a_delay_is_not_taken_where_another_entry_comes_sooner(call, at, build, quick, is_task):
    """Of a bucket that paces, what is admitted later is not admitted now."""

    def in_a_task(entries, **options):
        own = [(AsyncLimiter._of(limiter), *rest) for limiter, *rest in entries]
        return asyncio.run(aio.acquire_first(own, **options))

    quick.hit("x")
    paced = build(LeakyBucket(1, per=30, capacity=3), name="paced")
    paced.hit("x")
    entries = [(paced, "x"), (quick, "x")]
    caller = call(in_a_task if is_task else acquire_first, entries, timeout=100)
    until(lambda: queued(quick) == 1)
    at(10)
    assert (caller.result(PATIENCE).choice, caller.result().time) == (1, START + 10)
    assert used(paced, "x") == 1


def test_a_failing_store_fails_the_call_and_nobody_waits(slow):
    away = Limiter("5/minute", name="away", store="unix:///nowhere/redis.sock", clock=slow.clock)
    slow.hit("x")
    with pytest.raises(StoreError):
        acquire_first([(slow, "x"), (away, "x")], timeout=100)
    assert queued(slow) == 0


def test_a_task_waits_too_and_one_that_is_cancelled_holds_nothing(clock, slow, quick):
    async def main():
        entries = [(AsyncLimiter._of(each), "x") for each in (slow, quick)]
        for each in (slow, quick):
            each.hit("x")
        cancelled, waiting = (asyncio.create_task(aio.acquire_first(entries, timeout=100)) for _ in range(2))
        while queued(quick) < 2:
            await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        clock.advance(10)
        decision = await asyncio.wait_for(waiting, PATIENCE)
        assert (decision.choice, used(quick, "x"), used(slow, "x")) == (1, 1, 1)
        assert (await aio.acquire_first(entries, timeout=5, priority=3)).allowed is False
        with pytest.raises(TypeError, match="priority"):
            await aio.acquire_all([entries[0]], priority=None)

    asyncio.run(main())
    assert queued(slow) == queued(quick) == 0


def test_of_those_that_wait_the_higher_priority_goes_first(enqueue, at, quick):
    quick.hit("x")
    low, higher, highest, also_higher = (
        enqueue(quick, "x", timeout=100, priority=priority, patience=1000) for priority in (0, 1, 5, 1)
    )
    for place, caller in enumerate((highest, higher, also_higher, low), 1):
        at(10 * place)
        assert caller.result(PATIENCE).time == START + 10 * place


def test_one_may_be_passed_for_a_second_at_least_and_for_no_longer(build, enqueue, at):
    limiter = build(FixedWindow(1, 0.01))
    limiter.hit("x")
    low, *high = (enqueue(limiter, "x", timeout=100, priority=priority) for priority in (0, 1, 1, 1))
    for caller, second in ((high[0], 0.01), (high[1], 0.99), (low, 1), (high[2], 1.01)):
        at(second)
        assert round(caller.result(PATIENCE).time - START, 6) == second


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"priority": "high"}, TypeError),
        ({"priority": 1.5}, TypeError),
        ({"priority": True}, TypeError),
        ({"patience": "long"}, TypeError),
        ({"patience": -1}, ValueError),
        ({"patience": float("nan")}, ValueError),
    ],
)
def test_a_wrong_priority_or_patience_is_an_error_and_nothing_is_charged(quick, wrong, error):
    for acquire in (
        lambda: quick.acquire("x", **wrong),
        lambda: acquire_all([(quick, "x")], **wrong),
        lambda: acquire_first([(quick, "x")], **wrong),
        lambda: asyncio.run(AsyncLimiter._of(quick).acquire("x", **wrong)),
    ):
        with pytest.raises(error, match=next(iter(wrong))):
            acquire()
    assert used(quick, "x") == 0
