"""Replies end in the middle, or come in crumbs."""

from __future__ import annotations

import pytest

from overlimit import StoreUnavailable
from servers.patience import eventually

from .answering import answers
from .bounds import LATEST, RECOVERY


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
