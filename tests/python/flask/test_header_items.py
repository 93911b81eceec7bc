"""What the items of the draft's fields say of each kind of limit."""

from __future__ import annotations

import math

import pytest

from overlimit import FixedWindow, LeakyBucket, SlidingLog, TokenBucket

KINDS = {
    "fixed window": (FixedWindow(5, per=60), 5, 60),
    "sliding log": (SlidingLog(5, per=60), 5, 60),
    "token bucket": (TokenBucket(2, per=1, burst=20), 20, 10),
    "slow token bucket": (TokenBucket(3, per=10, burst=4), 4, 14),
    "leaky bucket": (LeakyBucket(1, per=10, capacity=2), 3, 30),
}


@pytest.mark.parametrize(("limit", "quota", "window"), KINDS.values(), ids=KINDS)
def test_an_item_says_what_an_unused_limit_grants_and_how_long_it_recovers(make_site, limit, quota, window):
    site = make_site()
    site.route("/", site.limiter.limit(limit, name="n"))
    assert site.open("/").headers["RateLimit-Policy"] == f'"n";q={quota};w={window}'
    assert site.ask("/", quota) == [200] * (quota - 1) + [429]


@pytest.mark.parametrize(("limit", "quota", "window"), KINDS.values(), ids=KINDS)
def test_after_t_seconds_of_a_refusal_the_request_passes_and_not_before(
    make_site, clock, limit, quota, window
):
    site = make_site()
    site.route("/", site.limiter.limit(limit, name="n"))
    assert site.ask("/", quota) == [200] * quota
    clock.advance(0.25)
    refused = site.decision("/")
    headers = site.open("/").headers
    assert headers["RateLimit"] == f'"n";r=0;t={math.ceil(refused.retry_after)}'
    assert headers["Retry-After"] == str(math.ceil(refused.retry_after))
    clock.advance(refused.retry_after - 0.000001)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 1) == [200]


def test_retry_after_is_never_earlier_than_the_t_of_any_refusing_item(make_site):
    site = make_site(application_limits="1/hour")
    site.route("/", site.limiter.limit("1/second; 1/minute", name="n"))
    assert site.ask("/", 1) == [200]
    headers = site.open("/").headers
    waits = [int(item.partition("t=")[2]) for item in headers["RateLimit"].split(", ")]
    assert sorted(waits) == [1, 60, 3600]
    assert headers["Retry-After"] == "3600"
