"""`recipes.Concurrency`: never more than its limit hold at once, and slots come back."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import InvalidLimit, RateLimitExceeded, RedisStore, StoreError
from overlimit.recipes import Concurrency
from servers.patience import PATIENCE, eventually

EVERY = pytest.mark.every_store
OPTIONS = {"capture_output": True, "text": True}
SHARED = pytest.mark.parametrize("store", ["shared_memory", "redis"], indirect=True)


@EVERY
class TestSlots:
    def test_as_many_are_taken_as_there_are(self, make):
        at_once = make(Concurrency, 2)
        first, second = at_once.enter("a"), at_once.enter("a")
        assert first
        assert second
        assert at_once.enter("a") is None
        assert at_once.in_use("a") == 2
        assert at_once.enter("b")
        first.leave()
        assert at_once.in_use("a") == 1
        assert at_once.enter("a")

    def test_a_second_leave_does_nothing(self, make):
        at_once = make(Concurrency, 3)
        slots = [at_once.enter("a") for _ in range(3)]
        for _ in range(3):
            slots[0].leave()
        assert at_once.in_use("a") == 2

    def test_of_many_at_one_microsecond_each_leaves_for_itself(self, make, clock):
        at_once = make(Concurrency, 10_000, longest=60)
        slots = [at_once.enter("a") for _ in range(50)]
        clock.advance(1e-6)
        slots += [at_once.enter("a") for _ in range(50)]
        for left, slot in enumerate(slots, 1):
            slot.leave()
            assert at_once.in_use("a") == 100 - left

    def test_one_is_free_after_the_longest_to_the_microsecond(self, make, at):
        at_once = make(Concurrency, 1, longest=60)
        at(0)
        slow = at_once.enter("a")
        at(59.999999)
        assert at_once.enter("a") is None
        at(60)
        quick = at_once.enter("a")
        assert quick
        slow.leave()
        assert at_once.in_use("a") == 1
        quick.leave()
        assert at_once.in_use("a") == 0

    def test_a_clock_set_back_frees_and_takes_none(self, make, at):
        at_once = make(Concurrency, 2, longest=60)
        at(100)
        first = at_once.enter("a")
        at(50)
        second = at_once.enter("a")
        assert at_once.enter("a") is None
        first.leave()
        second.leave()
        assert at_once.in_use("a") == 0

    def test_one_that_nobody_holds_any_more_is_left(self, make):
        at_once = make(Concurrency, 1)
        slot = at_once.enter("a")
        assert at_once.in_use("a") == 1
        del slot
        assert at_once.in_use("a") == 0
        loop = [at_once.enter("a")]
        loop.append(loop)
        del loop
        gc.collect()
        assert at_once.in_use("a") == 0


@EVERY
class TestWith:
    def test_a_block_runs_with_a_slot_only(self, make):
        at_once = make(Concurrency, 1)
        with at_once.slot("a") as slot:
            assert slot
            with pytest.raises(RateLimitExceeded) as refused, at_once.slot("a"):
                raise AssertionError
            assert 0 < refused.value.decision.retry_after <= 60
            assert at_once.in_use("a") == 1
        assert at_once.in_use("a") == 0

    def test_it_may_be_left_before_the_end(self, make):
        at_once = make(Concurrency, 1)
        with at_once.slot("a") as slot:
            slot.leave()
            with at_once.slot("a") as other:
                assert other
                slot.leave()
                assert at_once.in_use("a") == 1

    def test_one_object_may_be_entered_again_and_again(self, make):
        at_once = make(Concurrency, 2)
        entering = at_once.slot("a")
        for _ in range(2):
            with entering as first, entering as second:
                assert first
                assert second
                with pytest.raises(RateLimitExceeded), entering:
                    raise AssertionError
                assert at_once.in_use("a") == 2
            assert at_once.in_use("a") == 0


@EVERY
class TestProcesses:
    def test_a_forked_child_leaves_none_of_its_parents(self, make):
        at_once = make(Concurrency, 2)
        slot = at_once.enter("a")
        with at_once.slot("a"):
            child = os.fork()
            if child == 0:
                slot.leave()
                del slot
                gc.collect()
            else:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert at_once.in_use("a") == 2
        if child == 0:
            os._exit(0)
        slot.leave()
        assert at_once.in_use("a") == 0


@EVERY
def test_never_more_threads_than_slots(store):
    at_once, inside, counts = Concurrency(3, store=store, name="threads"), [], []

    def work(number):
        for _ in range(20):
            with at_once.slot("a", timeout=None):
                inside.append(number)
                counts.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(counts) == 160
    assert max(counts) <= 3
    assert at_once.in_use("a") == 0


PROGRAM = """
import os, sys, time
from overlimit import RedisStore, SharedMemoryStore
from overlimit.recipes import Concurrency

url, name, path = sys.argv[1:]
store = RedisStore(url, timeout=10, prefix=name) if "/" in url else SharedMemoryStore(url, timeout=10)
at_once = Concurrency(3, store=store, name="processes")
log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.stdin.read()  # until all have started
for _ in range(40):
    with at_once.slot("a", timeout=None):
        os.write(log, b"+")
        time.sleep(0.003)
        os.write(log, b"-")
"""


@pytest.fixture
def where(store, prefix):
    """Return how a program finds the store of this test."""
    return [store._arguments[0], prefix]


@SHARED
def test_never_more_processes_than_slots(store, where, tmp_path):
    path = tmp_path / "log"
    command = [sys.executable, "-c", PROGRAM, *where, str(path)]
    ready, go = os.pipe()
    processes = [subprocess.Popen(command, stdin=ready) for _ in range(5)]
    os.close(ready)
    os.close(go)
    assert [process.wait(PATIENCE * 6) for process in processes] == [0] * 5
    holding, most = 0, 0
    for step in path.read_bytes():
        holding += 1 if step == ord("+") else -1
        most = max(most, holding)
    assert path.stat().st_size == 400
    assert most <= 3
    assert Concurrency(3, store=store, name="processes").in_use("a") == 0


ENDING = """
import os, signal, sys
from overlimit import RedisStore, SharedMemoryStore
from overlimit.recipes import Concurrency

url, name, how = sys.argv[1:]
store = RedisStore(url, timeout=10, prefix=name) if "/" in url else SharedMemoryStore(url, timeout=10)
at_once = Concurrency(9, longest=2 if how == "killed" else 600, store=store, name="ending")

def work():
    global kept
    kept = [at_once.enter("a"), at_once.enter("a")]
    entered = at_once.slot("a").__enter__()
    assert at_once.in_use("a") == 3
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raised":
        raise SystemExit(0)

work()
"""


@SHARED
@pytest.mark.parametrize("how", ["ended", "raised"])
def test_a_process_that_ends_leaves_its_slots(store, where, how):
    ended = subprocess.run([sys.executable, "-c", ENDING, *where, how], check=False, **OPTIONS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert Concurrency(9, longest=600, store=store, name="ending").in_use("a") == 0


@SHARED
def test_a_process_that_is_killed_frees_its_slots_after_the_longest(store, where):
    at_once = Concurrency(9, longest=2, store=store, name="ending")
    killed = subprocess.run([sys.executable, "-c", ENDING, *where, "killed"], check=False, **OPTIONS)
    assert killed.returncode == -signal.SIGKILL
    assert at_once.in_use("a") == 3
    eventually(lambda: at_once.in_use("a") == 0)


class TestAFailingStore:
    @pytest.fixture
    def failing(self, start_redis):
        """Return two slots of a server that is down, and the server."""
        server = start_redis()
        at_once = Concurrency(2, store=RedisStore(server.tcp_url(), timeout=0.2), name="n")
        entering = at_once.slot("a")
        slots = [entering, entering.__enter__(), at_once.enter("a")]
        server.pause()
        yield slots
        server.resume()

    def test_leave_raises_and_the_end_of_a_block_logs(self, failing, caplog):
        entering, _, slot = failing
        with pytest.raises(StoreError):
            slot.leave()
        caplog.set_level(logging.WARNING, logger="overlimit")
        entering.__exit__(None, None, None)
        assert ["a slot could not be left" in record.getMessage() for record in caplog.records] == [True]

    def test_entering_raises(self):
        at_once = Concurrency(2, store=RedisStore("unix:///nowhere/redis.sock"), name="n")
        with pytest.raises(StoreError), at_once.slot("a"):
            raise AssertionError
        with pytest.raises(StoreError):
            at_once.in_use("a")


class TestArguments:
    @pytest.mark.parametrize(
        ("limit", "longest", "names"),
        [
            *((limit, 60, "limit") for limit in (0, -1, 10_001, 1.5, True)),
            *((1, longest, "longest") for longest in (0, -1, "60", float("inf"))),
        ],
    )
    def test_wrong_numbers_are_refused_by_name(self, limit, longest, names):
        with pytest.raises(InvalidLimit, match=names):
            Concurrency(limit, longest=longest)

    @pytest.mark.parametrize(("key", "error"), [("", ValueError), (1, TypeError)])
    def test_wrong_keys_are_refused(self, key, error):
        at_once = Concurrency(1)
        for call in (at_once.enter, at_once.in_use, lambda key: at_once.slot(key).__enter__()):
            with pytest.raises(error):
                call(key)

    def test_a_slot_is_neither_pickled_nor_copied(self):
        slot = Concurrency(1).enter("a")
        for take in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="belongs to the process"):
                take(slot)

    def test_a_slot_shows_its_key_and_is_true_while_it_is_held(self):
        slot = Concurrency(1).enter("a")
        assert (repr(slot), bool(slot)) == ("<Slot of 'a', held>", True)
        slot.leave()
        assert (repr(slot), bool(slot)) == ("<Slot of 'a', left>", False)

    def test_neither_a_slot_nor_all_of_them_are_a_context_manager(self):
        at_once = Concurrency(1)
        hint = r"write with concurrency\.slot\('user:42'(, timeout=5)?\) as slot:"
        for each in (at_once, at_once.enter("a")):
            with pytest.raises(AttributeError, match=hint), each:
                raise AssertionError
            assert not hasattr(each, "__enter__")
