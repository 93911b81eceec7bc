"""Each algorithm against cases worked out by hand, to the microsecond, on every store."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from overlimit import FixedWindow, Limiter, MemoryStore, SlidingWindow, TokenBucket

US = 1e-6
ID = "user:42"


def spent(limiter, hits, cost=1):
    """Hit and return how many were allowed."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(hits))


class TestFixedWindow:
    def test_admits_exactly_the_limit_in_a_window(self, build):
        assert spent(build(FixedWindow(5, per=60)), hits=20) == 5

    def test_a_window_opens_with_the_first_hit(self, build, at):
        limiter = build(FixedWindow(2, per=10))
        at(3)
        first = limiter.hit(ID)
        assert (first.allowed, first.remaining, first.retry_after, first.reset_after) == (True, 1, 0.0, 10.0)
        at(7.25)
        second = limiter.hit(ID)
        assert (second.allowed, second.remaining, second.reset_after) == (True, 0, 5.75)
        refused = limiter.hit(ID)
        assert (refused.status, refused.remaining) == ("over", 0)
        assert (refused.retry_after, refused.reset_after) == (5.75, 5.75)

    def test_a_window_ends_at_the_microsecond(self, build, at):
        limiter = build(FixedWindow(1, per=10))
        at(3)
        assert limiter.hit(ID)
        at(13 - US)
        last = limiter.hit(ID)
        assert (last.allowed, last.retry_after) == (False, 1e-6)
        at(13)
        assert limiter.hit(ID).reset_after == 10.0

    def test_the_next_window_opens_with_the_next_admitted_hit_not_where_the_last_ended(self, build, at):
        limiter = build(FixedWindow(1, per=10))
        assert limiter.hit(ID)
        at(14.5)
        assert limiter.hit(ID)
        at(20)
        assert limiter.hit(ID).retry_after == 4.5

    def test_epoch_windows_are_aligned(self, build, at):
        # 1,700,000,000 is 28,333,333 minutes and 20 seconds.
        limiter = build(FixedWindow(1, per=60, start="epoch"))
        assert limiter.hit(ID).reset_after == 40.0
        at(40 - US)
        assert limiter.hit(ID).retry_after == 1e-6
        at(40)
        assert limiter.hit(ID).reset_after == 60.0

    def test_epoch_and_first_windows_do_not_share_state(self, build):
        assert spent(build([FixedWindow(3, 60), FixedWindow(3, 60, start="epoch")]), hits=10) == 3

    def test_a_cost_counts_as_so_many(self, build):
        limiter = build(FixedWindow(10, per=60))
        assert limiter.hit(ID, cost=7).remaining == 3
        assert limiter.hit(ID, cost=4).status == "over"
        assert limiter.hit(ID, cost=3).remaining == 0

    def test_a_refused_call_opens_no_window(self, build, at):
        limiter = build([FixedWindow(5, per=10), FixedWindow(2, per=100)])
        assert limiter.hit(ID, cost=2)
        at(50)
        refused = limiter.hit(ID)
        assert [row.reset_after for row in refused.details] == [0.0, 50.0]
        assert [row.remaining for row in refused.details] == [5, 0]
        at(60)
        assert limiter.peek(ID).details[0].reset_after == 0.0

    def test_the_worked_example_lets_twice_the_limit_pass_around_a_boundary(self, build, at):
        assert admitted_per_second(build(FixedWindow(1000, per=3)), at) == [10, 10, 980, 900, 100, 0]


class TestSlidingWindow:
    def test_admits_exactly_the_limit_at_one_instant(self, build):
        assert spent(build(SlidingWindow(5, per=60)), hits=20) == 5

    def test_what_a_block_admitted_counts_until_the_whole_block_is_older_than_the_window(self, build, at):
        # Blocks of 1 s: the hit at 0.25 is in block 0, which leaves at (0 + 10 + 1) * 1 s.
        limiter = build(SlidingWindow(1, per=10, precision=1))
        at(0.25)
        first = limiter.hit(ID)
        assert (first.remaining, first.reset_after) == (0, 10.75)
        at(10.5)
        refused = limiter.hit(ID)
        assert (refused.status, refused.retry_after, refused.reset_after) == ("over", 0.5, 0.5)
        at(11 - US)
        assert limiter.hit(ID).retry_after == 1e-6
        at(11)
        assert limiter.hit(ID)

    def test_retry_waits_for_as_many_of_the_oldest_blocks_as_the_cost_needs(self, build, at):
        limiter = build(SlidingWindow(6, per=10, precision=1))
        for second in (0, 2, 4):
            at(second)
            assert limiter.hit(ID, cost=2)
        at(5)
        assert [limiter.peek(ID, cost=cost).retry_after for cost in (1, 2, 3, 4, 5, 6)] == [
            6.0,
            6.0,
            8.0,
            8.0,
            10.0,
            10.0,
        ]
        assert limiter.peek(ID).reset_after == 10.0

    def test_the_default_precision_cuts_a_minute_in_fifty(self, build, at):
        # 1,700,000,000 s is 0.8 s into a block of 1.2 s.
        limiter = build(SlidingWindow(1, per=60))
        assert limiter.hit(ID).reset_after == pytest.approx(60 + 1.2 - 0.8, abs=1e-9)
        at(60.4 - US)
        assert not limiter.hit(ID)
        at(60.4)
        assert limiter.hit(ID)

    def test_one_block_is_a_window_of_one_to_two_periods(self, build, at):
        limiter = build(SlidingWindow(1, per=10, precision=10))
        at(9)
        assert limiter.hit(ID).reset_after == 11.0
        at(20 - US)
        assert not limiter.hit(ID)
        at(20)
        assert limiter.hit(ID)

    def test_4096_blocks_each_leave_in_their_turn(self, build, at):
        limiter = build(SlidingWindow(4096, per=4096, precision=1))
        for second in range(4096):
            at(second)
            assert limiter.hit(ID).remaining == 4095 - second
        assert limiter.hit(ID).retry_after == 2.0
        at(4097)
        assert limiter.hit(ID).remaining == 0
        assert limiter.hit(ID).retry_after == 1.0
        at(4096 + 4097)
        assert limiter.peek(ID, cost=0).remaining == 4095

    def test_a_gap_of_a_day_at_fine_precision_costs_nothing_and_frees_everything(self, build, at):
        limiter = build(SlidingWindow(3, per=3600, precision=1))
        assert spent(limiter, hits=5) == 3
        at(86_400)
        assert limiter.hit(ID).remaining == 2

    def test_the_worked_example_keeps_its_promise(self, build, at):
        admitted = admitted_per_second(build(SlidingWindow(1000, per=3, precision=0.1)), at)
        assert admitted[:3] == [10, 10, 980]
        assert all(sum(admitted[i : i + 3]) <= 1000 for i in range(4))
        assert sum(admitted) >= 1000


class TestTokenBucket:
    def test_is_full_at_first_and_admits_the_burst_at_once(self, build):
        assert spent(build(TokenBucket(10, per=1, burst=20)), hits=50) == 20

    def test_refills_continuously(self, build, at):
        limiter = build(TokenBucket(10, per=1, burst=20))
        assert limiter.hit(ID, cost=20).reset_after == 2.0
        at(0.1 - US)
        assert limiter.hit(ID).retry_after == 1e-6
        at(0.1)
        taken = limiter.hit(ID)
        assert (taken.allowed, taken.remaining, taken.reset_after) == (True, 0, 2.0)
        at(1.15)
        assert limiter.peek(ID, cost=0).remaining == 10

    def test_never_holds_more_than_the_burst(self, build, at):
        limiter = build(TokenBucket(10, per=1, burst=20))
        assert spent(limiter, hits=50) == 20
        at(3600)
        assert spent(limiter, hits=50) == 20

    def test_the_burst_defaults_to_the_rate(self, build):
        assert spent(build(TokenBucket(7, per=60)), hits=20) == 7

    def test_waits_of_the_documented_bucket(self, build, at):
        limiter = build(TokenBucket(2, per=1, burst=100))
        assert limiter.hit(ID, cost=50).retry_after == 0.0
        assert limiter.hit(ID, cost=40).retry_after == 0.0
        assert limiter.hit(ID, cost=40).retry_after == 15.0
        at(15)
        assert limiter.hit(ID, cost=40)

    def test_waits_of_the_documented_list_of_buckets(self, build, at):
        limiter = build([TokenBucket(4, burst=40), TokenBucket(2, burst=50), TokenBucket(1, burst=200)])
        assert limiter.hit(ID, cost=40).retry_after == 0.0
        at(10)
        assert limiter.hit(ID, cost=40).retry_after == 5.0
        at(15)
        assert limiter.hit(ID, cost=40).retry_after == 0.0

    @pytest.mark.parametrize("rate", [0.29, 0.1, Fraction(1, 3), 1e-3, 123.456])
    def test_the_wait_of_a_fractional_rate_is_sufficient_and_not_a_microsecond_too_long(
        self, build, clock, rate
    ):
        limiter = build(TokenBucket(rate, burst=100))
        assert limiter.hit(ID, cost=100)
        exact = math.ceil(Fraction(37) / Fraction(str(rate)) * 1_000_000)
        assert limiter.hit(ID, cost=37).retry_after == exact / 1e6
        clock.advance((exact - 1) / 1e6)
        assert not limiter.hit(ID, cost=37)
        clock.advance(US)
        assert limiter.hit(ID, cost=37)

    def test_a_part_of_a_token_is_no_remaining_token(self, build, at):
        limiter = build(TokenBucket(1, per=1, burst=3))
        assert limiter.hit(ID, cost=3)
        at(2 - US)
        assert limiter.peek(ID, cost=0).remaining == 1
        at(2)
        assert limiter.peek(ID, cost=0).remaining == 2

    def test_a_rate_of_zero_refuses_everything_for_ever(self, build):
        refused = build(TokenBucket(0)).hit(ID)
        assert (refused.status, refused.retry_after, refused.remaining) == ("never", math.inf, 0)

    def test_a_charge_finer_than_a_microsecond_of_refill_is_not_lost(self, build, clock):
        limiter = build(TokenBucket(3_000_000, per=1, burst=10))
        assert limiter.hit(ID, cost=10)
        clock.advance(US)
        assert spent(limiter, hits=10) == 3

    def test_the_slowest_bucket_keeps_every_microsecond(self, build, clock):
        limiter = build(TokenBucket(1, per=2**49 / 1e6, burst=1))
        assert limiter.hit(ID).reset_after == 2**49 / 1e6
        clock.advance((2**49 - 1) / 1e6)
        assert limiter.hit(ID).retry_after == 1e-6
        clock.advance(US)
        assert limiter.hit(ID)


class TestAnyLimit:
    @pytest.mark.parametrize(
        "limit",
        [
            FixedWindow(0, 60),
            FixedWindow(0, 60, start="epoch"),
            SlidingWindow(0, 60),
            TokenBucket(1, burst=0),
        ],
        ids=lambda limit: limit.algorithm,
    )
    def test_a_limit_of_zero_refuses_the_first_call_for_ever(self, build, limit):
        refused = build(limit).hit(ID)
        assert (refused.status, refused.retry_after) == ("never", math.inf)
        assert (refused.remaining, refused.reset_after) == (0, 0.0)

    @pytest.mark.parametrize(
        "limit",
        [FixedWindow(2**53 - 1, 1), SlidingWindow(2**53 - 1, 1), TokenBucket(10**6, burst=2**53 - 1)],
        ids=lambda limit: limit.algorithm,
    )
    def test_the_largest_limit_counts_exactly(self, build, limit):
        limiter = build(limit)
        assert limiter.hit(ID, cost=2**53 - 2).remaining == 1
        assert limiter.hit(ID, cost=2).status == "over"
        assert limiter.hit(ID, cost=1).remaining == 0
        assert limiter.hit(ID, cost=1).status == "over"

    @pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow, TokenBucket])
    def test_a_period_of_one_microsecond_works(self, build, clock, kind):
        limiter = build(kind(2, US))
        for _ in range(5):
            assert spent(limiter, hits=5) == 2
            clock.advance(2 * US)

    @pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow, TokenBucket])
    def test_raising_the_limit_grants_the_difference(self, build, kind):
        assert spent(build(kind(5, 60)), hits=9) == 5
        assert spent(build(kind(8, 60)), hits=9) == 3

    @pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow, TokenBucket])
    def test_lowering_the_limit_refuses_even_cost_zero_until_usage_drains(self, build, clock, kind):
        assert build(kind(8, 60)).hit(ID, cost=8)
        lowered = build(kind(5, 60))
        refused = lowered.hit(ID, cost=0)
        assert (refused.status, refused.remaining) == ("over", 0)
        clock.advance(refused.retry_after)
        assert lowered.hit(ID, cost=0)

    def test_another_period_is_another_limit(self, build):
        assert spent(build(FixedWindow(5, 60)), hits=9) == 5
        assert spent(build(FixedWindow(5, 61)), hits=9) == 5

    def test_equal_tags_are_limits_of_their_own(self, build):
        assert spent(build([(60, 20), (60, 10)]), hits=30) == 10

    def test_a_name_keeps_the_state_of_its_limit_among_equals(self, build):
        strict, loose = SlidingWindow(2, 60, name="strict"), SlidingWindow(9, 60, name="loose")
        assert spent(build([strict, loose]), hits=20) == 2
        rows = build([loose, strict]).peek(ID, cost=0).details
        assert [row.remaining for row in rows] == [7, 0]

    def test_a_bucket_with_another_rate_keeps_what_was_used_rounded_up(self, build, clock):
        # 3 per 10 s: a token is 10,000,000 units and 3 come back per us; so 99,999,997 are in use at last.
        limiter = build(TokenBucket(3, per=10, burst=10))
        assert limiter.hit(ID, cost=9)
        clock.advance(US)
        assert limiter.hit(ID)
        # 4 per 10 s: a token is 2,500,000 units and 1 comes back per us; 24,999,999.25 in use are 10 tokens.
        faster = build(TokenBucket(4, per=10, burst=10))
        assert faster.hit(ID).retry_after == 2.5
        clock.advance(2.5)
        assert faster.hit(ID)

    def test_nobody_waits_beyond_the_expiry_as_it_was_written(self, build, clock):
        # 10 tokens at 10/s are back after 1 s; a slower rate, set later, does not prolong that.
        assert build(TokenBucket(10, per=1)).hit(ID, cost=10).reset_after == 1.0
        slower = build(TokenBucket(1, per=1, burst=10))
        refused = slower.hit(ID, cost=5)
        assert (refused.retry_after, refused.reset_after) == (1.0, 1.0)
        clock.advance(1.0)
        assert slower.hit(ID, cost=5).remaining == 5


def admitted_per_second(limiter: Limiter, at) -> list[int]:
    """Offer the worked example's load (10, 10, 980 | 900, 100, 0) and return what passed each second."""
    admitted = []
    at(0)
    for second, load in enumerate([10, 10, 980, 900, 100, 0]):
        at(second)
        admitted.append(sum(bool(limiter.hit(ID)) for _ in range(load)))
    return admitted


def test_a_store_of_the_test_is_empty_at_first(store):
    if isinstance(store, MemoryStore):
        assert len(store) == 0
    assert bool(store) is True
