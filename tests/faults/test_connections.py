"""How many connections there are, and who has them."""

from __future__ import annotations

import threading

from overlimit import Limiter, RedisStore
from servers.patience import eventually

MOST = 3


def tcp_connections(server):
    """Count the clients that aren't the test's own, which use the unix socket."""
    return sum(b"127.0.0.1" in line for line in server.ask("CLIENT", "LIST").splitlines())


def test_a_process_has_at_most_three_whatever_its_limiters_and_threads(server, ledger, prefix):
    stores = [RedisStore(server.tcp_url(), timeout=10 + i, prefix=f"{prefix}{i % 3}") for i in range(6)]
    limiters = [Limiter("1000000/day", store=store, name=f"n{i}") for i, store in enumerate(stores * 4)]
    work = threading.Thread(target=ledger.hit_from_threads, args=(limiters, "a"), kwargs={"times": 100})
    work.start()
    eventually(lambda: ledger.acknowledged)
    most = [tcp_connections(server)]
    while work.is_alive():
        most.append(tcp_connections(server))
    work.join()
    assert 1 <= min(most)
    assert max(most) <= MOST
    assert (ledger.errors, ledger.acknowledged) == ([], 24 * 100)


def test_threads_that_come_and_go_leave_none_behind(server, limiter_at, ledger):
    limiter = limiter_at(server.tcp_url())
    for _ in range(10):
        ledger.hit_from_threads([limiter] * 5, "a", times=2)
    assert 1 <= tcp_connections(server) <= MOST
    assert ledger.acknowledged == 100
