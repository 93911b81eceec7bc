"""What docs/algorithms.md says in numbers: bounds on what is admitted, and sizes of what is kept."""

from __future__ import annotations

import itertools
from contextlib import closing
from random import Random

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limit,
    Limiter,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)

TICK = 0.125
"""All of the traffic comes at multiples of this, which floats add without error."""


def admitted(limiter: Limiter, clock, calls) -> list[tuple[float, int]]:
    """Make calls of (instant, cost); return those that were admitted."""
    passed = []
    start = clock.now()
    for instant, cost in calls:
        clock.set(start + instant)
        if limiter.hit("a", cost=cost):
            passed.append((instant, cost))
    return passed


def most_in(log: list[tuple[float, int]], length: float) -> int:
    """The most that was spent in an interval of this length, its end excluded."""
    return max(sum(cost for at, cost in log if start <= at < start + length) for start, _ in log)


ALWAYS = [TICK * i for i in range(200)]
INTERVALS = TokenBucket(3, 2, burst=4, refill="interval", start="epoch")
REACHED: dict[str, tuple[Limit, list[tuple[float, int]], float, int]] = {
    "a fixed window from the first call": (FixedWindow(5, 2), [(0, 1), (1.875, 4), (2, 5)], 2, 9),
    "an aligned window": (FixedWindow(5, 2, start="epoch"), [(1.875, 5), (2, 5)], 2, 10),
    "a token bucket": (TokenBucket(4, 2, burst=4), [(at, 1) for at in ALWAYS[:16] for _ in "abcde"], 2, 7),
    "a bucket of intervals": (INTERVALS, [(1.875, 4), (2, 3), (4, 3)], 2, 7),
    "a bucket of intervals in more": (INTERVALS, [(1.875, 4), (2, 3), (4, 3)], 2.25, 10),
    "a bucket with debt": (
        TokenBucket(1, 2, burst=4, debt=6), [(0, 4), (0, 6), (0, 1), (11.875, 1)], 2, 10,
    ),
    "a leaky bucket": (LeakyBucket(3, 2, capacity=4), [(0, 1), (1.875, 6), (2, 3), (2, 1)], 2, 9),
}  # fmt: skip
"""A limit, calls of (instant, cost), and what an interval of a length admits at most."""
EVERY: dict[str, tuple[Limit, int, float]] = {
    "one per window from the first call": (FixedWindow(1, 2), 1, 2.0),
    "a sliding window, and its block": (SlidingWindow(5, 2, precision=0.5), 5, 2.5),
    "a sliding log": (SlidingLog(5, 2), 5, 2.0),
}
"""A limit, a cost of all of it, and how often that is admitted."""


class TestBounds:
    @pytest.mark.parametrize(("limit", "calls", "length", "most"), REACHED.values(), ids=REACHED)
    def test_are_reached(self, build, clock, limit, calls, length, most):
        assert most_in(admitted(build(limit), clock, calls), length) == most

    @pytest.mark.parametrize(("limit", "cost", "period"), EVERY.values(), ids=EVERY)
    def test_are_given_every_period(self, build, clock, limit, cost, period):
        log = admitted(build(limit), clock, [(at, cost) for at in ALWAYS])
        assert [at for at, _ in log] == [period * i for i in range(len(log))]
        assert len(log) == -(-25 // period)

    def test_a_sliding_window_counter_comes_close_to_twice_its_limit(self, build, clock):
        calls = [(1.999, 1000), *((2 + 0.001 * i, 1) for i in range(1999))]
        assert 1900 < most_in(admitted(build(SlidingWindowCounter(1000, 2)), clock, calls), 2) < 2000

    @pytest.mark.parametrize(
        ("bucket", "most"),
        [
            (LeakyBucket(1, per=0.1, capacity=100), 10),
            (LeakyBucket(10, per=1, capacity=100), 19),
            (LeakyBucket(2, per=0.2, capacity=100), 11),
        ],
    )
    def test_of_ten_a_second_from_a_leaky_bucket_so_many_proceed_in_a_second(
        self, build, clock, bucket, most
    ):
        random, limiter, left = Random(2), build(bucket), [0]
        limiter.hit("a")
        clock.advance(bucket.per - 0.001)
        for _ in range(300):
            if decision := limiter.hit("a"):
                left.append(round((clock.now() + decision.delay) * 1e6))
            clock.advance(random.choice([0, 0, 0, 0.001, 0.001, 0.03, 0.4, bucket.per]))
        left = [time - left[1] for time in left[1:]]
        found = max(sum(start <= time < start + 10**6 for time in left) for start in left)
        assert 10 <= found <= most
        if bucket.rate == 1:
            assert min(later - earlier for earlier, later in itertools.pairwise(left)) >= 100_000

    def test_the_worst_second_of_a_leaky_bucket_of_ten_a_second_has_19(self, build, clock):
        limiter, left = build(LeakyBucket(10, per=1, capacity=100)), []
        for pause, calls in [(0, 1), (0.999, 9), (0.001, 10)]:
            clock.advance(pause)
            left += [clock.now() for _ in range(calls) if limiter.hit("a").delay == 0]
        assert sum(time >= left[1] for time in left) == 19


class TestSizesInRedis:
    @pytest.fixture
    def size_after(self, redis_server, redis_store, clock, prefix):
        """Return the size of the value of one identifier after calls, so many seconds apart."""

        def size(limit: Limit, calls: int, apart: float = 1.0, **options) -> int:
            limiter = Limiter(limit, name="default", store=redis_store, clock=clock, **options)
            for _ in range(calls):
                limiter.hit("a")
                clock.advance(apart)
            with closing(redis_server.client()) as raw:
                return raw.strlen(f"{prefix}1:default:a")

        return size

    @pytest.mark.parametrize(
        "limit",
        [
            FixedWindow(9, 60),
            FixedWindow(9, 60, start="epoch"),
            FixedWindow(9, "day", start="calendar"),
            SlidingWindowCounter(9, 60),
            TokenBucket(9, 60),
            TokenBucket(9, 60, refill="interval"),
            TokenBucket(9, 60, debt=9),
            LeakyBucket(9, 60, capacity=9),
        ],
        ids=lambda limit: limit.label,
    )
    def test_a_limit_without_history_takes_52_bytes(self, size_after, limit):
        assert size_after(limit, calls=7) == 52

    @pytest.mark.parametrize(("calls", "size"), [(1, 52), (2, 68), (51, 852), (200, 852)])
    def test_a_sliding_window_takes_16_bytes_for_each_older_block(self, size_after, calls, size):
        assert size_after(SlidingWindow(9999, per=50), calls) == size

    @pytest.mark.prove
    def test_the_finest_sliding_window_takes_65_kilobytes(self, size_after):
        assert size_after(SlidingWindow(9999, per=4096, precision=1), calls=4200) == 65_588

    @pytest.mark.parametrize(("calls", "size"), [(1, 52), (2, 68), (100, 1636), (200, 1636)])
    def test_a_sliding_log_takes_16_bytes_for_each_older_entry(self, size_after, calls, size):
        assert size_after(SlidingLog(100, per=1000), calls) == size

    @pytest.mark.prove
    def test_the_largest_sliding_log_takes_160_kilobytes(self, size_after):
        assert size_after(SlidingLog(10_000, per=86_400), calls=10_000) == 160_036

    def test_calls_within_a_microsecond_share_an_entry(self, size_after):
        assert size_after(SlidingLog(100, per=1000), calls=50, apart=0) == 52

    def test_a_lock_takes_44_bytes_more_once_it_is_set(self, size_after):
        assert size_after(FixedWindow(1, 60), calls=1, penalty=Penalty(600)) == 52
        assert size_after(FixedWindow(1, 60), calls=1, penalty=Penalty(600)) == 96
