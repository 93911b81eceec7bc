"""Waiting ends with Ctrl-C, and is not inherited by a forked child."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from itertools import chain

import pytest

from interrupts import interrupted_everywhere
from overlimit import Limiter
from overlimit.waiting.acquiring import leave_for_others
from overlimit.waiting.queues import Waiter, wait_queues
from overlimit.waiting.sleeping import WakeUp
from programs import run

from .waiters import PATIENCE


def started(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["memory", "redis"])
def url(request, redis_server, prefix):
    """The store of a child process."""
    return (
        "memory://" if request.param == "memory" else f"{redis_server.unix_url()}&timeout=10&prefix={prefix}"
    )


EITHER = pytest.mark.parametrize("how", ["acquire", "acquire_all"])

INTERRUPTED = """
    import signal, sys, threading, time, traceback
    from overlimit import LeakyBucket, Limiter, acquire_all, waiting

    url, how, capacity = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limiter = Limiter(LeakyBucket(1, per=3600, capacity=int(capacity)), name="default", store=url)
    other = Limiter("5/hour", name="other", store=url)
    acquire = {
        "acquire": lambda: limiter.acquire("a", timeout=10_000),
        "acquire_all": lambda: acquire_all([(other, "b"), (limiter, "a")], timeout=10_000),
    }[how]
    limiter.hit("a")
    main = threading.main_thread().ident

    def is_asleep():
        names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
        return names[0] == "sleep" and how in names

    def report():
        while not is_asleep():
            time.sleep(0.001)
        print("asleep", flush=True)

    threading.Thread(target=report, daemon=True).start()
    try:
        acquire()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        left = [each.peek(who, cost=0).remaining for each, who in ((limiter, "a"), (other, "b"))]
        waiters = len(waiting.wait_queues().by_family)
        print(left, waiters, bool(limiter.acquire("c", timeout=0)))
"""


@EITHER
@pytest.mark.parametrize(("capacity", "left"), [("0", 0), ("5", 5)], ids=["in the queue", "in its delay"])
def test_ctrl_c_interrupts_gives_back_all_charges_and_leaves_all_queues(url, how, capacity, left):
    with started(INTERRUPTED, url, how, capacity) as child:
        try:
            assert child.stdout.readline() == "asleep\n", child.stderr.read()
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.monotonic() - sent < 1.5
            assert child.stdout.readline() == f"[{left}, 5] 0 True\n"
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()


MISSED = """
    import signal, sys, threading, time
    from overlimit import LeakyBucket, Limiter, ManualClock, waiting

    url, clock = sys.argv[1], {"real": None, "manual": ManualClock(1_700_000_000)}[sys.argv[2]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limiter = Limiter(LeakyBucket(1, per=3600, capacity=0), name="default", store=url, clock=clock)
    limiter.hit("a")

    def interrupt():
        while not waiting.wait_queues().by_family:
            time.sleep(0.001)
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)  # in this thread, so that nothing wakes the main one

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        limiter.acquire("a", timeout=10_000)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("clock", ["real", "manual"])
def test_a_signal_that_wakes_nobody_is_noticed(url, clock):
    done = run(MISSED, url, clock)
    assert done.stdout == "interrupted\n", done.stderr


OFTEN_INTERRUPTED = """
    import random, signal, sys, threading, time
    from overlimit import Limiter, SlidingLog, acquire_all, waiting

    def interrupt(*_):
        raise KeyboardInterrupt

    url, how = sys.argv[1:]
    signal.signal(signal.SIGALRM, interrupt)
    one, two = (Limiter(SlidingLog(1, 0.0002), store=url, name=name) for name in ("one", "two"))
    orders = [[(one, "a"), (two, "a")], [(two, "a"), (one, "a")]]
    ask = {
        "acquire": lambda number: one.acquire("a", timeout=None),
        "acquire_all": lambda number: acquire_all(orders[number % 2], timeout=None),
    }[how]
    over, served = threading.Event(), [0] * 4

    def acquire(number):
        while not over.is_set():
            served[number] += ask(number).allowed

    others = [threading.Thread(target=acquire, args=[number], daemon=True) for number in range(4)]
    for other in others:
        other.start()
    for _ in range(500):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-3))
            while True:
                ask(0)
        except KeyboardInterrupt:
            pass
    while min(served) <= 50:
        time.sleep(0.001)
    over.set()
    for other in others:
        other.join(10)
    print([other.is_alive() for other in others], len(waiting.wait_queues().by_family))
"""


@pytest.mark.check
@EITHER
def test_interrupts_at_whatever_moment_keep_nobody_waiting(url, how):
    done = run(OFTEN_INTERRUPTED, url, how)
    assert done.stdout == "[False, False, False, False] 0\n", done.stderr


FORKED = """
    import os, signal, sys, threading, time, warnings
    from overlimit import FixedWindow, Limiter, ManualClock, waiting

    warnings.simplefilter("ignore")
    clock = ManualClock(1_700_000_000)
    limiter = Limiter(FixedWindow(1, 10), name="default", store=sys.argv[1], clock=clock)
    limiter.hit("a")
    acquire = lambda: limiter.acquire("a", timeout=100)
    waiters = [threading.Thread(target=acquire) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    while len(waiting.wait_queues().by_family.get(limiter._family, ())) < 3:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        clock.advance(1000)
        limiter.reset("a")
        assert limiter.acquire("a", timeout=5), "there is nobody before it"
        assert not limiter.acquire("a", timeout=5)
        limiter.reset("a")
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    clock.advance(1000)
    for waiter in waiters:
        waiter.join(20)
    print([waiter.is_alive() for waiter in waiters])
"""


def test_a_forked_child_waits_behind_nobody_and_moves_its_own_clock(url):
    done = run(FORKED, url)
    assert done.stdout == "7\n[False, False, False]\n", done.stderr
    assert ("which a forked process does not share" in done.stderr) == url.startswith("memory")


def test_who_is_interrupted_while_it_leaves_has_left():
    queues = wait_queues()
    waiter = Waiter([(Limiter("1/minute"), b"a")], math.inf, WakeUp())
    queues.join(waiter)
    for number in interrupted_everywhere(partial(leave_for_others, [waiter])):
        if number > 1:  # the first is before anything of it runs
            assert waiter not in chain.from_iterable(queues.by_family.values())
        queues.join(waiter)
    assert number > 10
    assert waiter not in chain.from_iterable(queues.by_family.values())
