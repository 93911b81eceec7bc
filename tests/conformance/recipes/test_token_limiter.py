"""The token limiter: its document's own traces, and none of the flaws that were found in it."""

from __future__ import annotations

import math

import pytest

from overlimit import InvalidLimit, RedisStore
from overlimit.recipes import TokenLimiter

START = 1_700_000_000


class TestTokenLimiter:
    def test_lets_its_burst_pass_and_then_its_rate(self, make, at):
        limiter = make(TokenLimiter, 5, 10)
        assert [limiter.allow() for _ in range(12)] == [True] * 10 + [False] * 2
        at(0.199999)
        assert not limiter.allow()
        at(0.2)
        assert [limiter.allow(), limiter.allow()] == [True, False]
        at(100)
        assert [limiter.allow() for _ in range(12)] == [True] * 10 + [False] * 2

    def test_takes_n_at_once_or_none(self, make, at):
        limiter = make(TokenLimiter, 1, 10)
        assert [limiter.allow(6), limiter.allow(5), limiter.allow(4), limiter.allow()] == [
            True,
            False,
            True,
            False,
        ]
        at(3)
        assert [limiter.allow(4), limiter.allow(3)] == [False, True]
        assert not limiter.allow(11)

    def test_no_tokens_are_always_there_and_take_nothing(self, make):
        limiter = make(TokenLimiter, 1, 2)
        assert [limiter.allow(0) for _ in range(5)] == [True] * 5
        assert [limiter.allow(2), limiter.allow(0), limiter.allow()] == [True, True, False]

    @pytest.mark.parametrize(
        ("n", "error"),
        [
            (-1, ValueError),
            (-(2**70), ValueError),
            (1.5, TypeError),
            (1.0, TypeError),
            (True, TypeError),
            ("1", TypeError),
        ],
    )
    def test_what_is_no_number_of_tokens_is_an_error_and_mints_nothing(self, make, n, error):
        limiter = make(TokenLimiter, 1, 2)
        assert limiter.allow(2)
        with pytest.raises(error, match="cost"):
            limiter.allow(n)
        assert not limiter.allow()

    def test_a_rate_and_burst_of_0_refuse_everything(self, make, at):
        limiter = make(TokenLimiter, 0, 0)
        assert not limiter.allow()
        at(10**6)
        assert not limiter.allow()

    def test_is_rescued_by_a_bucket_of_this_process_when_the_store_fails(self, clock):
        store = RedisStore("unix:///nowhere/redis.sock")
        limiter = TokenLimiter(5, 10, name="rescued", store=store, clock=clock)
        assert [limiter.allow() for _ in range(12)] == [True] * 10 + [False] * 2
        clock.advance(0.2)
        assert [limiter.allow(), limiter.allow()] == [True, False]
        with pytest.raises(ValueError, match="cost"):
            limiter.allow(-1)

    def test_is_rescued_by_its_share(self, clock):
        store = RedisStore("unix:///nowhere/redis.sock")
        limiter = TokenLimiter(5, 10, name="rescued", store=store, clock=clock, local_share=0.25)
        assert [limiter.allow() for _ in range(4)] == [True, True, False, False]
        clock.advance(0.799999)
        assert not limiter.allow()
        clock.advance(0.000001)
        assert [limiter.allow(), limiter.allow()] == [True, False]

    @pytest.mark.parametrize("share", [0, -1, 1.5, math.nan, "1", None])
    def test_a_share_that_cannot_be(self, make, share):
        with pytest.raises(InvalidLimit, match="local_share"):
            make(TokenLimiter, 1, 1, local_share=share)

    def test_there_is_one_bucket_per_name(self, make):
        assert make(TokenLimiter, 1, 1, name="one").allow()
        assert make(TokenLimiter, 1, 1, name="other").allow()
        assert not make(TokenLimiter, 1, 1, name="one").allow()

    @pytest.mark.parametrize(
        ("rate", "burst", "named"),
        [
            (-1, 1, "rate"),
            (math.nan, 1, "rate"),
            ("5", 1, "rate"),
            (0, 1, "rate"),
            (1, -1, "burst"),
            (1, 1.5, "burst"),
        ],
    )
    def test_numbers_that_cannot_be(self, make, rate, burst, named):
        with pytest.raises(InvalidLimit, match=named):
            make(TokenLimiter, rate, burst)
