"""Limits in the memory of one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import Limiter, ManualClock, TokenBucket


@pytest.mark.parametrize(
    ("limits", "admitted", "then"),
    [("10/second; 120/minute", 10, 10), ([TokenBucket(10, per=60, burst=20)], 20, 1)],
    ids=["sliding-window", "token-bucket"],
)
def test_it_admits_exactly_the_limit_and_says_to_the_microsecond_when_to_come_back(limits, admitted, then):
    clock = ManualClock(start=1_700_000_000)
    limiter = Limiter(limits, clock=clock)
    assert [bool(limiter.hit("a", "b")) for _ in range(admitted + 5)] == [True] * admitted + [False] * 5
    retry_after = limiter.hit("a").retry_after
    clock.advance(retry_after - 1e-6)
    assert not limiter.hit("a")
    clock.advance(1e-6)
    assert [bool(limiter.hit("b")) for _ in range(then + 5)] == [True] * then + [False] * 5


def test_threads_admit_exactly_the_limit_together():
    limiter = Limiter("1000/hour")
    with ThreadPoolExecutor(4) as threads:
        admitted = sum(map(bool, threads.map(lambda _: limiter.hit("a"), range(1500))))
    assert admitted == 1000
