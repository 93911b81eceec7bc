"""What callers get while the store is out of reach, and how much is admitted in all."""

from __future__ import annotations

import math

import pytest

from overlimit import StoreError, StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import RECOVERY

TIMEOUT = 2.0
LIMITS = "10/day"


@pytest.fixture
def four_used(proxy, limiter_at):
    """Return a function that builds a limiter of 10 a day, of which 4 are used when its store is lost."""

    def build(**options):
        limiter = limiter_at(proxy.url, timeout=TIMEOUT, limits=LIMITS, **options)
        eventually(lambda: answers(limiter))
        assert [limiter.hit("a").allowed for _ in range(4)] == [True] * 4
        proxy.refuse()
        return limiter

    return build


def admitted(limiter, times):
    return sum(limiter.hit("a").allowed for _ in range(times))


def back(proxy, limiter):
    proxy.restore()
    eventually(lambda: limiter.peek("a").source == "store", within=RECOVERY)


def test_by_default_it_is_raised(proxy, limiter_at):
    limiter = limiter_at(proxy.url, timeout=TIMEOUT, limits=LIMITS)
    proxy.refuse()
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            limiter.hit("a")
    proxy.restore()

    def admits():
        try:
            return limiter.hit("a").allowed
        except StoreError:
            return False

    eventually(admits, within=RECOVERY)


def test_with_allow_all_pass_and_none_is_charged(proxy, four_used):
    limiter = four_used(on_error="allow")
    assert admitted(limiter, 50) == 50
    back(proxy, limiter)
    assert admitted(limiter, 50) == 6


def test_with_deny_none_passes_and_each_is_told_when_to_come_back(proxy, four_used):
    limiter = four_used(on_error="deny")
    for _ in range(20):
        decision = limiter.hit("a")
        assert (decision.allowed, decision.status, decision.source) == (False, "over", "error")
        assert TIMEOUT <= decision.retry_after < RECOVERY < math.inf
    back(proxy, limiter)
    assert admitted(limiter, 50) == 6


@pytest.mark.parametrize(("share", "locally"), [(1.0, 10), (0.5, 5), (0.05, 1)])
def test_with_local_a_share_passes_and_its_count_outlives_the_outage(proxy, four_used, share, locally):
    limiter = four_used(on_error="local", local_share=share)
    assert admitted(limiter, 50) == locally
    assert limiter.hit("a").source == "local"
    back(proxy, limiter)
    assert admitted(limiter, 50) == 6
    proxy.refuse()
    assert admitted(limiter, 50) == 0


@pytest.mark.parametrize("on_error", ["allow", "deny", "local"])
def test_threads_on_a_server_that_is_stopped_are_all_answered_in_time(server, limiter_at, ledger, on_error):
    limiter = limiter_at(server.tcp_url(), timeout=0.1, limits=LIMITS, on_error=on_error)
    eventually(lambda: answers(limiter))
    server.pause()
    ledger.hit_from_threads([limiter] * 6, "a", times=3)
    server.resume()
    assert (ledger.errors, ledger.acknowledged) == ([], 0)
    ledger.assert_in_time(0.1)
    eventually(lambda: answers(limiter), within=RECOVERY)
