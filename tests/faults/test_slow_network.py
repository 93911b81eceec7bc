"""Every byte takes its time."""

from __future__ import annotations

import time

from overlimit import StoreTimeout
from servers.patience import eventually

from .answering import answers
from .bounds import RECOVERY


def test_a_call_waits_for_the_network_and_not_much_longer(proxy, limiter_at, ledger, counted):
    limiter = limiter_at(proxy.url)
    limiter.hit("warm")
    proxy.delay(requests=0.01, replies=0.01)
    ledger.hit_times(30, limiter, "a")
    assert (ledger.acknowledged, counted("a")) == (30, 30)
    assert 0.02 <= min(ledger.seconds)
    assert ledger.median < 0.1


def test_calls_of_threads_travel_at_the_same_time(proxy, limiter_at, ledger, counted):
    limiter = limiter_at(proxy.url)
    proxy.delay(requests=0.02, replies=0.02)
    began = time.monotonic()
    ledger.hit_from_threads([limiter] * 16, "a", times=10)
    took = time.monotonic() - began
    assert (ledger.acknowledged, counted("a")) == (160, 160)
    assert 10 * 0.04 <= took < 160 * 0.04 / 2


def test_one_slower_than_the_timeout_ends_at_the_timeout(proxy, limiter_at, ledger, counted):
    limiter = limiter_at(proxy.url, timeout=0.4)
    eventually(lambda: answers(limiter))
    proxy.delay(replies=1.0)
    outcomes = ledger.hit_times(3, limiter, "a")
    assert all(isinstance(outcome, StoreTimeout) and outcome.maybe_charged for outcome in outcomes)
    assert 0.4 <= min(ledger.seconds)
    ledger.assert_in_time(0.4)
    eventually(lambda: counted("a") == 3)


def test_a_late_reply_is_nobody_elses(proxy, limiter_at, ledger, counted):
    impatient, patient = limiter_at(proxy.url, timeout=0.1), limiter_at(proxy.url)
    patient.hit("warm")
    proxy.delay(replies=0.3)
    ledger.hit_times(4, impatient, "late")
    proxy.restore()
    remaining = []
    eventually(lambda: patient.hit("warm"), within=RECOVERY)
    for _ in range(50):
        remaining.append(patient.hit("fresh").remaining)
    assert remaining == list(range(999_999, 999_949, -1))
    ledger.assert_accounts_for(counted("late"))
