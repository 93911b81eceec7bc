"""Every byte takes its time."""

from __future__ import annotations

import time

from servers.patience import eventually

from .bounds import RECOVERY


def test_calls_of_threads_travel_at_the_same_time(proxy, limiter_at, ledger, counted):
    limiter = limiter_at(proxy.url)
    proxy.delay(requests=0.02, replies=0.02)
    began = time.monotonic()
    ledger.hit_from_threads([limiter] * 16, "a", times=10)
    took = time.monotonic() - began
    assert (ledger.acknowledged, counted("a")) == (160, 160)
    assert 10 * 0.04 <= took < 160 * 0.04 / 2


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
