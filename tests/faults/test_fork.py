"""A process forks with connections open: parent and child are both right afterwards."""

from __future__ import annotations

import pytest

from .programs import run_program

# Python itself warns of a fork while there are other threads, from 3.12 on.
AS_ERRORS = ("-W", "error")
BUT_FOR_THREADS = (*AS_ERRORS, "-W", "ignore:This process:DeprecationWarning")

BUILD = """
url, prefix, server = sys.argv[1], sys.argv[2], int(sys.argv[3])
limiter = Limiter("1000000/day", name="default", store=RedisStore(url, timeout=10, prefix=prefix))
"""


pytestmark = pytest.mark.only_threads


@pytest.fixture
def url(request, server):
    return getattr(server, getattr(request, "param", "tcp_url"))()


@pytest.fixture
def run(server, url, prefix, tmp_path):
    """Return a function that runs a program which has a ``limiter`` and the ``server``'s pid."""

    def program(text, *, options=AS_ERRORS):
        return run_program(BUILD + text, url, prefix, str(server.pid), directory=tmp_path, options=options)

    return program


@pytest.fixture
def used(server, limiter_at):
    """Return a function that tells how many hits of an identifier the server has counted."""
    limiter = limiter_at(server.unix_url(), limits="1000000/day")
    return lambda identifier: 1_000_000 - limiter.peek(identifier, cost=0).remaining


def received(server):
    """Return how many connections the server has accepted so far, this question's included."""
    stats = server.ask("INFO", "stats").decode()
    return int(stats.partition("total_connections_received:")[2].split()[0])


@pytest.mark.parametrize("url", ["tcp_url", "unix_url"], indirect=True)
def test_while_idle_each_has_connections_of_its_own(run, used):
    run("""
limiter.hit("parent")
parents = sockets()
assert len(parents) == 1

def work():
    hit_in_order(limiter, "child", 20)
    assert len(sockets()) == 1
    assert not sockets() & parents

child = in_child(work)
hit_in_order(limiter, "parent", 20)
ended(child)
hit_in_order(limiter, "parent", 20)
assert sockets() == parents
""")
    assert (used("parent"), used("child")) == (41, 20)


def test_a_child_that_ends_or_closes_leaves_its_parents_connection_alone(run, server):
    before = received(server)
    run("""
limiter.hit("parent")
parents = sockets()

def close():
    limiter.store.close()

def leave():
    raise SystemExit

for work in (close, lambda: None, lambda: sys.modules.clear()):
    ended(in_child(work))
    hit_in_order(limiter, "parent", 5)
    assert sockets() == parents
""")
    # One more is this question's own.
    assert received(server) == before + 2


def test_during_a_call_of_another_thread_the_reply_is_the_parents(run, used):
    run(
        """
limiter.hit("parent")
os.kill(server, signal.SIGSTOP)
decisions = []
caller = threading.Thread(target=lambda: decisions.append(limiter.hit("parent")))
caller.start()
time.sleep(0.1)

def work():
    os.kill(server, signal.SIGCONT)
    hit_in_order(limiter, "child", 50)

child = in_child(work)
caller.join()
assert [each.remaining for each in decisions] == [999_998]
hit_in_order(limiter, "parent", 50)
ended(child)
""",
        options=BUT_FOR_THREADS,
    )
    assert (used("parent"), used("child")) == (52, 50)


def test_descriptors_do_not_grow_with_forks(run):
    run("""
limiter.hit("parent")
before = descriptors()
inside = []

def work():
    limiter.hit("child")
    assert descriptors() <= before, descriptors()

for _ in range(40):
    ended(in_child(work))
    limiter.hit("parent")
assert descriptors() == before

def descend(depth):
    work()
    if depth:
        ended(in_child(lambda: descend(depth - 1)))

descend(8)
""")


def test_no_call_leaves_a_thread_behind(run):
    printed = run("""
limiter.hit("parent")
print(len(os.listdir("/proc/self/task")) - 1)
ended(in_child(lambda: limiter.hit("child")))
""")
    # The one besides the main thread is the watchdog of these programs.
    assert printed.split() == ["1"]
