"""kaciras' RedisTokenBucket (Java), whose answer is the wait: its cases, and each of its known flaws."""

from __future__ import annotations

import itertools
import math
from contextlib import closing
from fractions import Fraction

import pytest

from overlimit import Limiter, ManualClock, Penalty, TokenBucket

ID = "user:42"
US = 1e-6


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


class TestWaits:
    def test_of_the_documented_bucket_are_0_0_and_15_seconds(self, build, at):
        limiter = build(TokenBucket(2, burst=100))
        assert [limiter.hit(ID, cost=cost).retry_after for cost in (50, 40, 40)] == [0.0, 0.0, 15.0]
        at(15 - US)
        assert limiter.hit(ID, cost=40).retry_after == US
        at(15)
        assert limiter.hit(ID, cost=40)

    def test_of_several_buckets_are_the_longest_and_all_or_none_are_taken_from(self, build, at):
        limiter, waits = (
            build([TokenBucket(4, burst=40), TokenBucket(2, burst=50), TokenBucket(1, burst=200)]),
            [],
        )
        for second in (0, 10, 15):
            at(second)
            waits.append(limiter.hit(ID, cost=40).retry_after)
        assert waits == [0.0, 5.0, 0.0]
        assert [row.remaining for row in limiter.peek(ID, cost=0).details] == [0, 0, 135]

    def test_for_more_than_the_bucket_holds_are_for_ever(self, build):
        limiter = build(TokenBucket(2, burst=100))
        refused = limiter.hit(ID, cost=101)
        assert (refused.status, refused.retry_after) == ("never", math.inf)
        assert limiter.hit(ID, cost=100)

    def test_reserve_nothing(self, build, at):
        limiter = build(TokenBucket(1, burst=1))
        assert limiter.hit(ID)
        assert {limiter.hit(ID).retry_after for _ in range(10)} == {1.0}
        at(1)
        assert passed(limiter, 9) == 1

    def test_for_nothing_are_none(self, build):
        limiter = build(TokenBucket(2, burst=100))
        assert limiter.hit(ID, cost=100)
        assert (limiter.hit(ID, cost=0).allowed, limiter.hit(ID, cost=0).retry_after) == (True, 0.0)
        assert not limiter.hit(ID)

    @pytest.mark.parametrize("rate", [0.29, 0.1, 0.7, 1 / 3, Fraction(1, 3), 2.5, 1e-6])
    def test_of_fractional_rates_suffice_and_are_not_a_microsecond_too_long(self, build, clock, rate):
        limiter = build(TokenBucket(rate, burst=100))
        assert limiter.hit(ID, cost=100)
        for cost in (1, 29, 100):
            wait = limiter.peek(ID, cost=cost).retry_after
            assert wait == math.ceil(cost / Fraction(str(rate)) * 10**6) / 1e6
        clock.advance(wait - US)
        assert not limiter.hit(ID, cost=100)
        clock.advance(US)
        assert limiter.hit(ID, cost=100)


class TestTokens:
    @pytest.mark.parametrize("cost", [-1, -100, -(2**63)])
    def test_cannot_be_given_back_by_a_negative_cost(self, build, cost):
        limiter = build(TokenBucket(2, burst=100))
        assert limiter.hit(ID, cost=60)
        with pytest.raises(ValueError, match="cost"):
            limiter.hit(ID, cost=cost)
        assert limiter.peek(ID, cost=0).remaining == 40

    def test_are_not_taken_by_a_clock_that_goes_back(self, build, at):
        limiter = build(TokenBucket(2, burst=100))
        at(100)
        assert limiter.hit(ID, cost=60)
        for second in (99.5, 50, 0, -1000):
            at(second)
            assert limiter.peek(ID, cost=0).remaining == 40
        at(110)
        assert limiter.peek(ID, cost=0).remaining == 60

    def test_are_not_made_by_a_clock_that_goes_back_and_forth(self, build, at):
        limiter, admitted = build(TokenBucket(2, burst=100)), 0
        for step in range(50):
            at(100 * (step % 2))
            admitted += passed(limiter, 100, cost=10)
        assert admitted * 10 == 100 + 100

    def test_come_back_by_the_microsecond_and_not_all_at_once_with_the_second(self, build, at):
        limiter = build(TokenBucket(100, burst=100))
        at(0.999_999)
        assert passed(limiter, 300) == 100
        at(1)
        assert passed(limiter, 300) == 0
        at(1.01)
        assert passed(limiter, 300) == 1

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
    def test_stay_with_their_bucket_when_buckets_are_reordered(self, build, order):
        buckets = [
            TokenBucket(4, per=2, burst=40),
            TokenBucket(2, per=3, burst=50),
            TokenBucket(1, burst=200),
        ]
        assert build(buckets).hit(ID, cost=40)
        rows = build([buckets[i] for i in order]).peek(ID, cost=0).details
        assert [row.remaining for row in rows] == [(0, 10, 160)[i] for i in order]


class TestBlocks:
    def test_last_longer_each_time_and_the_longest_repeats(self, build, clock):
        limiter, blocks = build(TokenBucket(1, burst=1), penalty=Penalty([2, 4, 8])), []
        for _ in range(5):
            assert limiter.hit(ID)
            blocks.append(limiter.hit(ID).retry_after)
            clock.advance(blocks[-1])
        assert blocks == [2.0, 4.0, 8.0, 8.0, 8.0]

    def test_that_hits_refresh_keep_their_level(self, build, clock):
        limiter = build(TokenBucket(1, burst=1), penalty=Penalty([2, 4, 8], extend=True))
        for _ in range(2):
            assert limiter.hit(ID)
            wait = limiter.hit(ID).retry_after
            clock.advance(wait)
        clock.advance(-1)
        refreshed = [limiter.hit(ID) for _ in range(3)]
        assert [(each.status, each.retry_after) for each in refreshed] == [("locked", 4.0)] * 3
        clock.advance(4)
        assert limiter.hit(ID)
        assert limiter.hit(ID).retry_after == 8.0

    def test_that_hits_do_not_refresh_end_when_they_said(self, build, clock):
        limiter = build(TokenBucket(1, burst=1), penalty=Penalty([2, 4, 8]))
        assert limiter.hit(ID)
        assert limiter.hit(ID).retry_after == 2.0
        clock.advance(1.5)
        assert (limiter.hit(ID).status, limiter.hit(ID).retry_after) == ("locked", 0.5)
        clock.advance(0.5)
        assert limiter.hit(ID)

    def test_are_forgotten_by_who_behaves(self, build, clock):
        limiter, blocks = build(TokenBucket(1, burst=1), penalty=Penalty([2, 4, 8], forget_after=10)), []
        for pause in (2, 4 + 10 - US, 8 + 10, 0):
            assert limiter.hit(ID)
            blocks.append(limiter.hit(ID).retry_after)
            clock.advance(pause)
        assert blocks == [2.0, 4.0, 8.0, 2.0]


class TestTimeToLive:
    @pytest.fixture
    def raw(self, redis_server):
        with closing(redis_server.client()) as client:
            yield client

    RATES = (0.29, Fraction(1, 3), 0.7, 3.7, 1e-6, 1_000_000, 3_000_000)

    @pytest.mark.parametrize("rate", RATES)
    def test_is_whole_and_covers_the_refill_whatever_the_rate(self, redis_store, raw, prefix, rate):
        limiter = Limiter(TokenBucket(rate, burst=10), name="default", store=redis_store)
        for _ in range(5):
            reset = limiter.hit(ID).reset_after
            assert max(1, reset * 1000) <= raw.pttl(f"{prefix}1:default:{ID}") <= reset * 1000 + 2000

    @pytest.mark.parametrize("rate", [1_000_000, 3_000_000])
    def test_of_a_bucket_that_refills_within_a_microsecond_does_not_delete_it(self, store, rate):
        limiter = Limiter(
            TokenBucket(rate, burst=1), name="default", store=store, clock=ManualClock(1_700_000_000)
        )
        assert passed(limiter, 1000) == 1
