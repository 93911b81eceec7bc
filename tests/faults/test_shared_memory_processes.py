"""Processes share limits: those of pools, of other PID namespaces, and such that create and remove files."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from overlimit import FixedWindow, Limiter, SharedMemoryStore

pytestmark = pytest.mark.usefixtures("shared_memory")

SMALL = 1 << 18

HITS = """
import sys
from overlimit import FixedWindow, Limiter, SharedMemoryStore

path, calls = sys.argv[1], int(sys.argv[2])
store = SharedMemoryStore(path, max_bytes=1 << 18, timeout=30)
limiter = Limiter(FixedWindow(3000, per=86_400), name="p", store=store)
print(sum(bool(limiter.hit("a")) for _ in range(calls)))
"""

CREATES_AND_REMOVES = """
import random, sys
from overlimit import Limiter, SharedMemoryStore, StoreConfigError

while True:
    store = SharedMemoryStore(sys.argv[1], max_bytes=1 << 18)
    Limiter("5/minute", name="p", store=store).hit("a")
    if random.random() < 0.5:
        store.unlink()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "limits"


@pytest.fixture
def limiter(path):
    store = SharedMemoryStore(path, max_bytes=SMALL, timeout=30)
    return Limiter(FixedWindow(3000, per=86_400), name="p", store=store)


@contextmanager
def running(
    program: str, *arguments: object, within: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    command = [*within, sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def admitted_by(limiter: Limiter, calls: int) -> int:
    return sum(bool(limiter.hit("a")) for _ in range(calls))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_pool_admits_exactly_the_limit_whatever_starts_its_processes(limiter, method):
    assert limiter.hit("a", cost=2900)
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert sum(pool.starmap(admitted_by, [(limiter, 50)] * 6, chunksize=1)) == 100


# In a PID namespace of its own each first process has the number 1.
def test_processes_of_other_pid_namespaces_are_told_apart(path, limiter):
    own = ("unshare", "--pid", "--fork", "--kill-child")
    within = own if os.geteuid() == 0 else (*own, "--user", "--map-current-user")
    with (
        running(HITS, path, 2000, within=within) as first,
        running(HITS, path, 2000, within=within) as second,
    ):
        assert admitted_by(limiter, 100) == 100
        admitted = [int(process.communicate(timeout=60)[0]) for process in (first, second)]
    assert sum(admitted) == 2900
    assert min(admitted) > 0
    assert limiter.stats()["damaged"] == 0


@pytest.mark.check
def test_whoever_creates_and_removes_files_leaves_nothing_when_it_is_killed(path):
    random_ = random.Random(5)
    for _ in range(25):
        with running(CREATES_AND_REMOVES, path) as process:
            time.sleep(0.15 + random_.random() / 20)
            process.send_signal(signal.SIGKILL)
    store = SharedMemoryStore(path, max_bytes=SMALL)
    store.unlink()
    Limiter("5/minute", name="p", store=SharedMemoryStore(path, max_bytes=SMALL)).hit("a")
    assert os.listdir(path.parent) == [path.name]
