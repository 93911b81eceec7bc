"""The counter and the interval token bucket of a 2019 article: their traces, and each known flaw."""

from __future__ import annotations

import math
from contextlib import closing

import pytest

from overlimit import FixedWindow, InvalidLimit, Limiter, RedisStore, SlidingWindow, TokenBucket

from .monitoring import commands_during

ID = "user:42"
US = 1e-6


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


def passed_per_second(limiter: Limiter, at, loads: list[int]) -> list[int]:
    counts = []
    for second, load in enumerate(loads):
        at(second)
        counts.append(passed(limiter, load))
    return counts


class TestCounter:
    LOADS = (10, 10, 980, 900, 100, 0)

    def test_its_example_passes_1980_in_three_seconds_of_a_fixed_window(self, build, at):
        counts = passed_per_second(build(FixedWindow(1000, per=3)), at, self.LOADS)
        assert counts == [10, 10, 980, 900, 100, 0]
        assert sum(counts[2:5]) == 1980

    def test_its_example_passes_at_most_1000_in_any_three_seconds_of_a_sliding_window(self, build, at):
        counts = passed_per_second(build(SlidingWindow(1000, per=3)), at, self.LOADS)
        assert counts[:4] == [10, 10, 980, 0]
        assert 10 <= sum(counts[4:]) <= 20
        assert max(sum(counts[i : i + 3]) for i in range(4)) == 1000

    def test_around_a_boundary_a_sliding_window_admits_its_limit_once(self, build, at):
        # The fixed window of the article admits 1961 within 93 ms here.
        limiter = build(SlidingWindow(1000, per=1))
        at(0.95)
        assert passed(limiter, 1000) == 1000
        at(1.043)
        assert passed(limiter, 1000) == 0
        at(1.98)
        assert passed(limiter, 1100) == 1000

    def test_a_limit_of_zero_refuses_the_first_call_too(self, build):
        answers = [build(FixedWindow(0, per=3)).hit(ID) for _ in range(3)]
        assert [answer.status for answer in answers] == ["never"] * 3
        assert {answer.retry_after for answer in answers} == {math.inf}

    def test_a_window_of_half_a_second_ends_after_half_a_second(self, build, at):
        limiter = build(FixedWindow(3, per=0.5))
        assert passed(limiter, 9) == 3
        at(0.5 - US)
        assert passed(limiter, 9) == 0
        at(0.5)
        assert passed(limiter, 9) == 3

    @pytest.mark.parametrize("per", [0, -1, 0.0000001, math.nan, math.inf])
    def test_a_window_without_a_length_cannot_be_built(self, per):
        with pytest.raises(InvalidLimit, match="per"):
            FixedWindow(3, per=per)


class TestIntervalTokenBucket:
    BUCKET = TokenBucket(5, per=2, burst=10, refill="interval")

    def test_is_full_at_first_and_adds_whole_intervals_only(self, build, at):
        limiter = build(self.BUCKET)
        assert passed(limiter, 30) == 10
        at(2 - US)
        assert passed(limiter, 30) == 0
        at(2)
        assert passed(limiter, 30) == 5

    def test_keeps_the_phase_of_its_first_use(self, build, at):
        limiter = build(self.BUCKET)
        at(0.75)
        assert passed(limiter, 30) == 10
        at(3.5)
        assert passed(limiter, 30) == 5
        at(4.75 - US)
        assert limiter.hit(ID).retry_after == US
        at(4.75)
        assert passed(limiter, 30) == 5

    def test_tells_what_remains(self, build, at):
        limiter = build(self.BUCKET)
        assert [limiter.hit(ID, cost=cost).remaining for cost in (1, 4, 3)] == [9, 5, 2]
        at(2)
        assert limiter.peek(ID, cost=0).remaining == 7

    def test_never_holds_more_than_it_can(self, build, at):
        limiter = build(self.BUCKET)
        assert passed(limiter, 3) == 3
        at(1_000_001)
        assert passed(limiter, 30) == 10

    def test_a_capacity_of_zero_refuses_the_first_call_too(self, build):
        assert [build(TokenBucket(5, burst=0, refill="interval")).hit(ID).status for _ in range(3)] == [
            "never"
        ] * 3

    def test_a_clock_that_goes_back_takes_no_tokens(self, build, at):
        limiter = build(self.BUCKET)
        at(100)
        assert passed(limiter, 4) == 4
        for second in (99, 50, 0, -100_000):
            at(second)
            assert limiter.peek(ID, cost=0).remaining == 6
        at(100)
        assert passed(limiter, 30) == 6

    def test_two_clocks_that_disagree_make_no_tokens(self, build, at):
        limiter, admitted = build(self.BUCKET), 0
        for step in range(100):
            at(step / 10 + 60 * (step % 2))
            admitted += passed(limiter, 30)
        # 10 at first; 10 of a full bucket at 60.1 s; then, as the clock that is ahead moves on to 69.9 s,
        # 5 at 62.1 s, 64.1 s, 66.1 s and 68.1 s. The clock that is behind changes nothing.
        assert admitted == 10 + 10 + 4 * 5


class TestPreConsumption:
    def test_its_waits_are_0_0_and_12_seconds(self, build):
        limiter = build(TokenBucket(0.5, burst=1, debt=6))
        assert [limiter.hit(ID, cost=cost).retry_after for cost in (1, 6, 2)] == [0.0, 0.0, 12.0]

    def test_after_the_wait_it_passes_and_not_a_microsecond_before(self, build, at):
        limiter = build(TokenBucket(0.5, burst=1, debt=6))
        for cost in (1, 6):
            assert limiter.hit(ID, cost=cost)
        at(12 - US)
        assert limiter.hit(ID, cost=2).retry_after == US
        at(12)
        assert limiter.hit(ID, cost=2)

    def test_a_debt_without_bound_lets_any_size_pass_once(self, build, at):
        limiter = build(TokenBucket(0.5, burst=1, debt=math.inf))
        assert limiter.hit(ID, cost=1_000_000)
        assert limiter.hit(ID).retry_after == (1_000_000 - 1) / 0.5
        at((1_000_000 - 1) / 0.5)
        assert limiter.hit(ID)

    def test_more_than_the_debt_allows_never_passes(self, build):
        limiter = build(TokenBucket(0.5, burst=1, debt=6))
        assert limiter.hit(ID, cost=8).status == "never"
        assert limiter.hit(ID, cost=7)


class TestKeys:
    """What only Redis can show."""

    @pytest.fixture
    def raw(self, redis_server):
        with closing(redis_server.client()) as client:
            yield client

    @pytest.fixture
    def key(self, prefix):
        return f"{prefix}1:default:{ID}"

    LIMITS = (FixedWindow(3, per=0.5), TokenBucket(3, per=0.5, refill="interval"), SlidingWindow(3, per=0.5))
    EACH = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)

    @EACH
    def test_the_call_that_creates_a_key_gives_it_a_time_to_live(self, redis_store, raw, key, limit):
        assert Limiter(limit, name="default", store=redis_store).hit(ID)
        assert 0 < raw.pttl(key) <= 3000

    @EACH
    def test_a_key_that_lost_its_time_to_live_blocks_nobody(self, redis_store, raw, key, clock, limit):
        limiter = Limiter(limit, name="default", store=redis_store, clock=clock)
        assert passed(limiter, 9) == 3
        assert raw.persist(key)
        assert passed(limiter, 9) == 0
        clock.advance(0.6)
        assert passed(limiter, 9) == 3
        assert raw.pttl(key) > 0

    @EACH
    def test_all_that_is_known_of_an_identifier_is_in_one_key_so_none_can_be_lost_alone(
        self, redis_store, raw, prefix, clock, limit
    ):
        limiter = Limiter(limit, name="default", store=redis_store, clock=clock)
        assert passed(limiter, 9) == 3
        (only,) = raw.scan_iter(f"{prefix}*")
        raw.delete(only)
        assert passed(limiter, 9) == 3

    def test_a_script_touches_the_keys_it_declares_and_no_others(self, start_redis, clock):
        server = start_redis()
        limiter = Limiter(
            list(self.LIMITS), name="default", store=RedisStore(server.unix_url(), timeout=10.0), clock=clock
        )
        limiter.hit("warm", "up")
        seen = commands_during(server, lambda: [limiter.hit("ip:1", ID) for _ in range(5)])
        assert len(seen.of_clients) == 5
        assert seen.touched_keys == seen.declared_keys == {"ol1:default:ip:1", f"ol1:default:{ID}"}
