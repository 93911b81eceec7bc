"""The server forgets its scripts."""

from __future__ import annotations

import threading

from servers.patience import eventually

from .bounds import RECOVERY


def test_threads_notice_nothing(server, limiter_at, ledger, counted):
    limiters = [limiter_at(server.tcp_url()) for _ in range(4)]
    work = threading.Thread(target=ledger.hit_from_threads, args=(limiters, "a"), kwargs={"times": 200})
    work.start()
    while work.is_alive():
        server.ask("SCRIPT", "FLUSH")
    work.join()
    assert (ledger.acknowledged, counted("a")) == (800, 800)
    assert ledger.errors == []
    assert ledger.slowest < RECOVERY


def test_a_refund_and_a_lock_notice_nothing(server, limiter_at):
    limiter = limiter_at(server.tcp_url(), limits="2/day")
    decision = limiter.hit("a")
    server.ask("SCRIPT", "FLUSH")
    limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 2
    server.ask("SCRIPT", "FLUSH")
    limiter.lock("a", 60)
    assert limiter.hit("a").status == "locked"
    eventually(lambda: limiter.hit("b"), within=RECOVERY)
