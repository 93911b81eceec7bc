"""Those who wait for several limiters at once: in what order, at what cost, and when they are interrupted."""

from __future__ import annotations

import threading

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    SlidingLog,
    acquire_all,
    hit_all,
)
from programs import run

from .test_processes import started
from .waiters import PATIENCE, queued, still_waits, until

pytestmark = pytest.mark.only_threads

START = 1_700_000_000


def test_callers_in_opposite_order_both_get_through_first_come_first_served(call, at, build):
    one, other = build(FixedWindow(1, 10), name="one"), build(FixedWindow(1, 10), name="other")
    hit_all([(one, "x"), (other, "y")])
    callers = []
    for number, charges in enumerate([[(one, "x"), (other, "y")], [(other, "y"), (one, "x")]] * 2):
        callers.append(call(acquire_all, charges, timeout=None))
        until(lambda waiting=number + 1: queued(one) == waiting)
    for place, caller in enumerate(callers):
        at(10 * (place + 1))
        assert caller.result(PATIENCE).time == START + 10 * (place + 1)


def test_a_caller_of_two_waits_behind_callers_of_each_and_holds_up_no_other(call, enqueue, at, short, long):
    short.hit("x")
    long.hit("y", cost=2)
    first_of_short = enqueue(short, "x", timeout=None)
    both = call(acquire_all, [(long, "y"), (short, "x")], timeout=None)
    until(lambda: queued(long) == 1)
    behind = enqueue(long, "y", timeout=None)
    assert short.acquire("other", timeout=0)
    assert acquire_all([(short, "another"), (long, "other")], timeout=0)
    at(10)
    assert first_of_short.result(PATIENCE)
    assert still_waits(both)
    at(60)
    assert both.result(PATIENCE).time == behind.result(PATIENCE).time == START + 60


def test_who_waits_for_one_customer_holds_up_nobody_who_asks_for_another(build, call, at):
    service, customers = (
        build(FixedWindow(100, 1), name="service"),
        build(FixedWindow(3, 60), name="customers"),
    )
    customers.hit("ada", cost=3)
    ada = call(acquire_all, [(service, "api"), (customers, "ada", 2)], timeout=90)
    until(lambda: queued(service) == 1)
    assert acquire_all([(service, "api"), (customers, "bob", 2)], timeout=0)
    assert service.acquire("api", timeout=0)
    refusal = acquire_all([(customers, "ada", 1), (service, "api")], timeout=59.999999)
    assert (refusal.identifier, refusal.retry_after, refusal.remaining) == ("ada", 60.0, 0)
    assert still_waits(ada)
    at(60)
    assert ada.result(PATIENCE)


def test_limits_of_one_family_share_a_queue(build, call, enqueue, at, long):
    limiter = build(FixedWindow(1, 10), name="family")
    limiter.hit("x")
    both = call(acquire_all, [(limiter, "x"), (long, "y")], timeout=None)
    until(lambda: queued(limiter) == 1)
    behind = enqueue(limiter.with_limits(FixedWindow(2, 10)), "x", timeout=None)
    at(10)
    assert both.result(PATIENCE)
    assert behind.result(PATIENCE)


def test_each_caller_costs_a_few_calls_however_many_wait(build, call, clock, long):
    limiter = build(FixedWindow(1, 10), name="few")
    roomy = build(FixedWindow(100, 3600), name="roomy")
    callers = []
    for number in range(20):
        callers.append(call(acquire_all, [(roomy, "y"), (limiter, "x")], timeout=None))
        until(lambda waiting=number + 1: queued(limiter) + sum(map(done, callers)) == waiting)
    until(lambda: sum(map(done, callers)) == 1)
    for caller in callers[1:]:
        clock.advance(10)
        assert caller.result(PATIENCE)
    assert 20 <= roomy.stats()["calls"] <= 3 * 20


def done(caller):
    return caller.done()


INTERRUPTED = """
    import signal, sys, threading, time, traceback
    from overlimit import LeakyBucket, Limiter, acquire_all, waiting

    capacity = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    slow, other = Limiter(LeakyBucket(1, per=3600, capacity=capacity)), Limiter("5/hour")
    slow.hit("a")
    main = threading.main_thread().ident

    def is_asleep():
        names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
        return names[0] == "sleep" and "acquire_all" in names

    def report():
        while not is_asleep():
            time.sleep(0.001)
        print("asleep", flush=True)

    threading.Thread(target=report, daemon=True).start()
    try:
        acquire_all([(other, "b"), (slow, "a")], timeout=10_000)
    except KeyboardInterrupt:
        left = [limiter.peek(who, cost=0).remaining for limiter, who in ((slow, "a"), (other, "b"))]
        print(left, len(waiting.wait_queues().by_family), flush=True)
"""


@pytest.mark.parametrize(("capacity", "left"), [("0", 0), ("5", 5)], ids=["in the queues", "in its delay"])
def test_ctrl_c_gives_back_all_charges_and_leaves_all_queues(capacity, left):
    with started(INTERRUPTED, capacity) as child:
        try:
            assert child.stdout.readline() == "asleep\n", child.stderr.read()
            child.send_signal(2)
            assert child.stdout.readline() == f"[{left}, 5] 0\n"
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()


OFTEN_INTERRUPTED = """
    import random, signal, threading, time
    from overlimit import Limiter, SlidingLog, acquire_all, waiting

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    one, two = (Limiter(SlidingLog(1, 0.0002)) for _ in range(2))
    orders = [[(one, "a"), (two, "a")], [(two, "a"), (one, "a")]]
    over, served = threading.Event(), [0] * 4

    def acquire(number):
        while not over.is_set():
            served[number] += acquire_all(orders[number % 2], timeout=None).allowed

    others = [threading.Thread(target=acquire, args=[number], daemon=True) for number in range(4)]
    for other in others:
        other.start()
    for _ in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-3))
            while True:
                acquire_all(orders[0], timeout=None)
        except KeyboardInterrupt:
            pass
    while min(served) <= 50:
        time.sleep(0.001)
    over.set()
    for other in others:
        other.join(10)
    print([other.is_alive() for other in others], len(waiting.wait_queues().by_family))
"""


def test_interrupts_at_whatever_moment_keep_nobody_waiting():
    done = run(OFTEN_INTERRUPTED)
    assert done.stdout == "[False, False, False, False] 0\n", done.stderr


@pytest.mark.every_store
def test_a_crowd_in_opposite_orders_is_served_completely_and_no_faster_than_the_limits(store):
    one, other = (Limiter(SlidingLog(4, 0.1), name=name, store=store) for name in ("one", "other"))
    orders = ([(one, "x"), (other, "y")], [(other, "y"), (one, "x")])
    decisions = []

    def ask(order):
        decisions.extend(acquire_all(order, timeout=PATIENCE) for _ in range(3))

    threads = [threading.Thread(target=ask, args=[orders[number % 2]]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    times = sorted(decision.time for decision in decisions)
    assert len(times) == 24
    assert all(decisions)
    assert all(later - earlier >= 0.1 - 1e-6 for earlier, later in zip(times, times[4:], strict=False))
    assert queued(one) == queued(other) == 0
