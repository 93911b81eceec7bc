"""Greenlets share one thread: a call blocks them all, and none must wait for another that cannot run."""

from __future__ import annotations

import pytest

from .programs import run_program

PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent

url, prefix = sys.argv[1:3]
decided = []

def look_away(decision):
    decided.append(gevent.getcurrent())
    gevent.sleep(0)

store = RedisStore(url, timeout=10, prefix=prefix)
limiter = Limiter("100/day", name="default", store=store, on_decision=look_away)

def hit_from_greenlets(pause):
    def hit():
        allowed = 0
        for _ in range(20):
            allowed += bool(limiter.hit("everybody"))
            gevent.sleep(pause)
        return allowed

    greenlets = [gevent.spawn(hit) for _ in range(8)]
    gevent.joinall(greenlets, timeout=30, raise_error=True)
    return sum(greenlet.value for greenlet in greenlets)
"""


@pytest.fixture
def run(server, prefix, tmp_path):
    """Return a function that runs a monkey-patched program which has a ``limiter``; the rest is its end."""

    def program(text):
        return run_program(PATCHED + text, server.tcp_url(), prefix, directory=tmp_path)

    return program


def test_they_admit_exactly_the_limit_in_turns(run):
    printed = run("""
print(hit_from_greenlets(0.001))
assert len(decided) == 160
assert any(one is not next for one, next in zip(decided, decided[1:]))
""")
    assert printed == "100\n"


def test_so_they_do_beside_real_threads(run):
    printed = run("""
threads = gevent.get_hub().threadpool
others = [threads.spawn(lambda: sum(bool(limiter.hit("everybody")) for _ in range(20))) for _ in range(4)]
ours = hit_from_greenlets(0)
print(ours + sum(other.get(timeout=30) for other in others))
""")
    assert printed == "100\n"


def test_so_they_do_in_a_fork(run):
    printed = run("""
limiter.hit("parent")
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.write(writing, str(hit_from_greenlets(0)).encode())
    os._exit(0)
ours = hit_from_greenlets(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(ours + int(os.read(reading, 10)))
""")
    assert printed == "100\n"
