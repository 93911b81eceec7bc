"""A share of a limit: exact in decimal, whole numbers rounded down, but never to nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    Limiter,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.limits.quantities import share_of_all

WINDOWS = [
    lambda limit: FixedWindow(limit, 60, name="w"),
    lambda limit: FixedWindow(limit, 60, start="epoch"),
    lambda limit: FixedWindow(limit, "week", start="calendar", timezone="Europe/Berlin", week_start=6),
    lambda limit: SlidingWindow(limit, 60),
    lambda limit: SlidingWindow(limit, 60, precision=20, name="w"),
    lambda limit: SlidingLog(limit, 60, name="w"),
    lambda limit: SlidingWindowCounter(limit, 60),
]
PORTIONS = [
    (10, 0.5, 5),
    (10, 0.25, 2),
    (10, 0.29, 2),
    (100, 0.29, 29),
    (100, Decimal("0.29"), 29),
    (100, Fraction(29, 100), 29),
    (1000, 0.001, 1),
    (10, 0.7, 7),
    (10, 0.1, 1),
    (10, 0.01, 1),
    (3, 1e-300, 1),
    (1, 0.5, 1),
    (0, 0.5, 0),
    (10_000, 0.9999, 9999),
]


@pytest.mark.parametrize("build", WINDOWS)
@pytest.mark.parametrize(("limit", "share", "portion"), PORTIONS)
def test_a_window_grants_its_share_rounded_down_but_at_least_1(build, limit, share, portion):
    assert build(limit).scaled(share_of_all(share, "share")) == build(portion)


@pytest.mark.parametrize(
    ("bucket", "share", "scaled"),
    [
        (TokenBucket(10, 1, burst=20), 0.5, TokenBucket(5, 1, burst=10)),
        (TokenBucket(10, 1, burst=20), 0.25, TokenBucket(2.5, 1, burst=5)),
        (TokenBucket(1, 1, burst=1), 0.1, TokenBucket(0.1, 1, burst=1)),
        (TokenBucket(0.29, 1, burst=3), 0.1, TokenBucket(0.029, 1, burst=1)),
        (TokenBucket(100, 60), 0.3, TokenBucket(30, 60)),
        (TokenBucket(9, 1, burst=9, debt=5), Fraction(1, 3), TokenBucket(3, 1, burst=3, debt=1)),
        (TokenBucket(9, 1, burst=9, debt=1), 0.1, TokenBucket(0.9, 1, burst=1, debt=1)),
        (TokenBucket(9, 1, burst=9, debt=math.inf), 0.5, TokenBucket(4.5, 1, burst=4, debt=math.inf)),
        (TokenBucket(0, 1, burst=0), 0.5, TokenBucket(0, 1, burst=0)),
        (
            TokenBucket(9, 2, burst=9, refill="interval", debt=3),
            0.5,
            TokenBucket(4, 2, burst=4, refill="interval", debt=1),
        ),
        (
            TokenBucket(1, 2, burst=8, refill="interval", start="epoch"),
            0.1,
            TokenBucket(1, 2, burst=1, refill="interval", start="epoch"),
        ),
        (TokenBucket(7, 1, burst=7, name="n"), 0.5, TokenBucket(3.5, 1, burst=3, name="n")),
    ],
)
def test_a_bucket_keeps_a_fraction_of_its_rate_only_where_it_refills_continuously(bucket, share, scaled):
    assert bucket.scaled(share_of_all(share, "share")) == scaled


@pytest.mark.parametrize(
    ("queue", "share", "scaled"),
    [
        (LeakyBucket(10, 1, capacity=30), 0.5, LeakyBucket(5, 1, capacity=15)),
        (LeakyBucket(10, 1, capacity=30), 0.01, LeakyBucket(1, 1, capacity=1)),
        (LeakyBucket(10, 1, capacity=0), 0.29, LeakyBucket(2, 1, capacity=0)),
        (LeakyBucket(10, 1, capacity=30, burst=5), 0.5, LeakyBucket(5, 1, capacity=15, burst=2)),
        (LeakyBucket(0, 1, capacity=0, name="n"), 0.5, LeakyBucket(0, 1, capacity=0, name="n")),
    ],
)
def test_a_queue_keeps_whole_numbers(queue, share, scaled):
    assert queue.scaled(share_of_all(share, "share")) == scaled


@pytest.mark.parametrize("build", WINDOWS)
def test_a_share_belongs_to_the_same_records(build):
    limit = build(10)
    assert limit.scaled(Fraction(1, 3))._core_limit.tag == limit._core_limit.tag


def test_all_of_a_limit_is_the_limit():
    for limit in (build(7) for build in WINDOWS):
        assert limit.scaled(Fraction(1)) == limit


@pytest.mark.parametrize("on_error", ["raise", "allow", "deny", "local"])
@pytest.mark.parametrize(
    "share", [0, 0.0, -0.5, 1.0000001, 2, math.nan, math.inf, -math.inf, True, "0.5", None, [1]]
)
def test_a_share_that_cannot_be_is_an_error_when_the_limiter_is_built(share, on_error):
    with pytest.raises(InvalidLimit, match="local_share"):
        Limiter("3/minute", on_error=on_error, local_share=share)


@pytest.mark.parametrize("share", [1, 1.0, 0.5, 1e-9, Fraction(1, 3), Decimal("0.125")])
def test_a_share_is_shown_as_it_was_given(share):
    assert Limiter("30/minute", name="shares", local_share=share).local_share == share


def test_a_share_too_small_to_be_kept_exactly_is_an_error_when_the_limiter_is_built_or_updated():
    with pytest.raises(InvalidLimit, match="local_share"):
        Limiter(TokenBucket(1, 2**29), local_share=1e-16)
    limiter = Limiter("3/minute", name="updated", local_share=1e-16)
    with pytest.raises(InvalidLimit, match="local_share"):
        limiter.update(TokenBucket(1, 2**29))
    assert limiter.limits == (SlidingWindow(3, 60),)
