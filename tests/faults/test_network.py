"""Bytes vanish without a word and come late when it is over, take their time, or end in the middle."""

from __future__ import annotations

import time

import pytest

from overlimit import StoreTimeout, StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import LATEST, RECOVERY

TIMEOUT = 0.1


EITHER_WAY = pytest.mark.parametrize("swallow", ["replies", "both ways"], indirect=True)


@pytest.fixture
def swallow(request, proxy):
    """Return a function that lets the network swallow."""
    return proxy.hold_replies if getattr(request, "param", None) == "replies" else proxy.hold_all


@EITHER_WAY
@pytest.mark.parametrize("on", ["url", "unix_url"])
def test_a_call_ends_at_its_timeout_and_may_have_been_charged(
    proxy, limiter_at, ledger, counted, swallow, on
):
    limiter = limiter_at(getattr(proxy, on), timeout=TIMEOUT)
    eventually(lambda: answers(limiter))
    swallow()
    outcomes = ledger.hit_times(3, limiter, "a")
    assert all(isinstance(outcome, StoreTimeout) and outcome.maybe_charged for outcome in outcomes)
    assert TIMEOUT <= min(ledger.seconds)
    ledger.assert_in_time(TIMEOUT)
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.assert_accounts_for(counted("a"))


def test_one_before_the_first_call_charges_nothing_twice(proxy, limiter_at, ledger, counted, swallow):
    swallow()
    limiter = limiter_at(proxy.url, timeout=TIMEOUT)
    ledger.hit_times(3, limiter, "a")
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(5, limiter, "a")
    ledger.assert_accounts_for(counted("a"))


@EITHER_WAY
def test_threads_are_all_answered_in_time_and_their_late_replies_dropped(
    proxy, limiter_at, ledger, counted, swallow
):
    limiter = limiter_at(proxy.url, timeout=TIMEOUT)
    eventually(lambda: answers(limiter))
    swallow()
    ledger.hit_from_threads([limiter] * 8, "a", times=3)
    assert ledger.acknowledged == 0
    ledger.assert_in_time(TIMEOUT)
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    patient = limiter_at(proxy.url)
    assert [patient.hit("fresh").remaining for _ in range(20)] == list(range(999_999, 999_979, -1))
    ledger.assert_accounts_for(counted("a"))


def test_calls_soon_fail_at_once_but_for_probes(proxy, limiter_at, ledger, counted, swallow):
    limiter = limiter_at(proxy.url, timeout=TIMEOUT)
    eventually(lambda: answers(limiter))
    swallow()
    ledger.hit_for(1.0, limiter, "a")
    eventually(lambda: ledger.hit_times(10, limiter, "a") and len(ledger.seconds) > 1000)
    ledger.seconds = ledger.seconds[-1000:]
    assert ledger.median < 0.01
    ledger.assert_in_time(TIMEOUT)
    accepted = proxy.connections()
    assert accepted <= 12
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(20, limiter_at(proxy.url), "a")
    assert ledger.acknowledged == 20
    ledger.assert_accounts_for(counted("a"))


def test_calls_of_threads_travel_at_the_same_time(proxy, limiter_at, ledger, counted):
    limiter = limiter_at(proxy.url)
    proxy.delay(requests=0.02, replies=0.02)
    began = time.monotonic()
    ledger.hit_from_threads([limiter] * 16, "a", times=10)
    took = time.monotonic() - began
    assert (ledger.acknowledged, counted("a")) == (160, 160)
    assert 10 * 0.04 <= took < 160 * 0.04 / 2


@pytest.mark.parametrize("length", [0, 1, 2, 7, 20])
def test_a_reply_that_ends_in_the_middle_is_an_unknown_outcome_at_once(
    proxy, limiter_at, ledger, counted, length
):
    limiter = limiter_at(proxy.url)
    ledger.hit(limiter, "a")
    proxy.cut_replies_after(length)
    error = ledger.hit(limiter, "a")
    assert isinstance(error, StoreUnavailable)
    assert error.maybe_charged
    assert ledger.slowest < LATEST
    proxy.restore()
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(5, limiter, "a")
    assert ledger.acknowledged == 6
    assert counted("a") == 7
    ledger.assert_accounts_for(counted("a"))


def test_threads_whose_replies_are_cut_again_and_again_never_get_each_others(
    proxy, limiter_at, ledger, counted
):
    limiter = limiter_at(proxy.url)
    with ledger.hammering(limiter, "a", threads=6):
        for length in (5, 50, 333, 1000):
            proxy.cut_replies_after(length)
            cuts = len(ledger.errors)
            eventually(lambda cuts=cuts: len(ledger.errors) > cuts)
            proxy.restore()
            before = ledger.acknowledged
            eventually(lambda before=before: ledger.acknowledged > before + 20, within=RECOVERY)
    assert ledger.acknowledged > 80
    assert ledger.unknown >= 1
    assert all(isinstance(error, StoreUnavailable) for error in ledger.errors)
    ledger.assert_accounts_for(counted("a"))
