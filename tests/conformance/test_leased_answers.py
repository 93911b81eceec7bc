"""What decisions tell of a key that is leased, whatever else the process does with it."""

from __future__ import annotations

import time

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    SlidingWindowCounter,
    StoreError,
    TokenBucket,
    bounds,
    hit_all,
)

from .leased import MANY, held, limiter_of, used, warmed

EXHAUSTED_SOON = {
    "bucket": TokenBucket(100, per=1, burst=20),
    "window": FixedWindow(100, per=0.5),
    "counter": SlidingWindowCounter(100, per=0.5),
    "interval": TokenBucket(100, per=0.3, refill="interval"),
    "queue": LeakyBucket(100, per=0.3, capacity=0),
}


@pytest.mark.parametrize("lease", [0.1, 0.5])
@pytest.mark.parametrize("kind", EXHAUSTED_SOON)
def test_who_is_alone_and_comes_back_as_told_is_admitted(leasing_for, kind, lease):
    limiter = limiter_of(leasing_for(lease), EXHAUSTED_SOON[kind])
    for _ in range(3):
        while decision := limiter.hit("a"):
            pass
        told = time.monotonic() + decision.retry_after
        while (left := told - time.monotonic()) > 0:
            time.sleep(left)
        assert limiter.hit("a").allowed, decision


CHANGES = {
    "a charge": lambda limiter, strict: limiter.charge("a", cost=500),
    "a hit by a strict store": lambda limiter, strict: limiter_of(strict).hit("a", cost=500),
    "a settlement": lambda limiter, strict: limiter.settle(limiter.hit("a"), 501),
    "a hit with others": lambda limiter, strict: limiter.hit("a", "b", cost=500),
    "a hit by several policies": lambda limiter, strict: hit_all([(limiter, "a", 500), (limiter, "b")]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_this_process_charges_besides_is_told_at_once(leasing, strict, change):
    limiter, _ = warmed(leasing)
    time.sleep(0.3)  # by an eighth of it, the instants of leased decisions are behind
    between = change(limiter, strict)
    after = limiter.hit("a")
    assert after.remaining == 1000 - used(strict) + held(limiter)
    assert after.time >= between.time


def test_peeks_hits_and_charges_count_what_is_held_alike(leasing):
    limiter, hits = warmed(leasing)
    left = 1000 - hits
    assert held(limiter) > 0
    assert (limiter.peek("a", cost=0).remaining, limiter.hit("a", cost=0).remaining) == (left, left)
    assert limiter.peek("a").remaining == left - 1
    assert limiter.charge("a").remaining == left - 1


def test_a_charge_is_admitted_where_a_hit_would_be(leasing, strict):
    limiter, _ = warmed(leasing)
    limiter_of(strict).charge("a", cost=1000 - used(strict))
    assert held(limiter) > 0
    assert limiter.charge("a").allowed


def test_units_of_a_lost_reply_have_lapsed(start_redis, prefix, leasing_for):
    server = start_redis()
    store = leasing_for(10, url=server.unix_url(), timeout=0.3)
    limiter = limiter_of(store)
    limiter.hit("a")
    server.pause()
    try:
        with pytest.raises(StoreError):
            limiter.hit("a")
    finally:
        server.resume()
    assert limiter.stats()["lapsed"] > 0


def test_bounds_of_what_is_no_limiter_or_grants_too_little(leasing):
    for wrong in (3, None, MANY, leasing):
        with pytest.raises(TypeError, match="bounds\\(\\) takes a Limiter"):
            bounds(wrong)
    assert bounds(limiter_of(leasing, FixedWindow(4, 60))).reason == "a limit grants less than 5 at once"
    assert bounds(limiter_of(leasing, FixedWindow(5, 60))).reason is None
