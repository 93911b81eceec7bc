"""The server has no memory left and may drop nothing."""

from __future__ import annotations

from overlimit import StoreUnavailable


def test_a_call_fails_at_once_with_nothing_charged(server, limiter_at, ledger, counted):
    limiter = limiter_at(server.tcp_url())
    ledger.hit(limiter, "a")
    server.ask("CONFIG", "SET", "maxmemory", 1)
    outcomes = ledger.hit_times(5, limiter, "b")
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert (ledger.failed, ledger.unknown) == (5, 0)
    assert ledger.slowest < 1.0
    server.ask("CONFIG", "SET", "maxmemory", 0)
    ledger.hit(limiter, "b")
    assert (ledger.acknowledged, counted("a"), counted("b")) == (2, 1, 1)
