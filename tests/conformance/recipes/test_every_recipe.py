"""What all recipes have in common."""

from __future__ import annotations

import datetime
from contextlib import closing
from decimal import Decimal
from fractions import Fraction

import pytest

from overlimit import FixedWindow, Limiter, RedisStore, StoreError, recipes
from overlimit.recipes import Counter, PeriodLimit, PeriodState, TokenLimiter

ALLOWED, HIT_QUOTA, OVER_QUOTA = PeriodState.ALLOWED, PeriodState.HIT_QUOTA, PeriodState.OVER_QUOTA


LIMITERS = [
    lambda options: Counter(3, 60, **options).hit("a"),
    lambda options: PeriodLimit(60, 3, **options).take("a"),
    lambda options: PeriodLimit(60, 3, align=True, timezone="Europe/Berlin", **options).take("a"),
    lambda options: TokenLimiter(3, 3, **options).allow(),
]
EACH = pytest.mark.parametrize("call", LIMITERS, ids=["counter", "period", "aligned", "tokens"])


class TestEveryRecipe:
    @EACH
    def test_needs_nothing_but_its_numbers(self, call):
        assert call({})

    @EACH
    def test_names_its_state_as_it_is_told(self, redis_server, redis_store, prefix, call):
        call({"store": redis_store, "name": "mine"})
        with closing(redis_server.client()) as raw:
            (key,) = raw.scan_iter(f"{prefix}*")
        assert key.startswith(f"{prefix}1:mine:".encode())

    @EACH
    @pytest.mark.parametrize("name", ["", "a b", "x" * 65])
    def test_refuses_a_name_that_cannot_be(self, call, name):
        with pytest.raises(ValueError, match="name"):
            call({"name": name})

    @pytest.mark.parametrize("call", LIMITERS[:3], ids=["counter", "period", "aligned"])
    def test_raises_when_the_store_cannot_answer_unless_it_has_a_rescue(self, call):
        with pytest.raises(StoreError):
            call({"store": RedisStore("unix:///nowhere/redis.sock")})

    def test_all_share_a_store_and_a_key_without_disturbing_each_other(self, make):
        calls = [
            make(Counter, 1, 60).hit,
            make(Counter, 1, 61).hit,
            make(Counter, 2, 60).hit,
            make(PeriodLimit, 60, 1).take,
            make(PeriodLimit, 60, 2).take,
            make(PeriodLimit, 60, 1, align=True).take,
            make(PeriodLimit, 60, 1, align=True, timezone="Europe/Berlin").take,
            make(PeriodLimit, 60, 1, align=True, timezone="Etc/GMT+5").take,
            make(PeriodLimit, 60, 1, align=True, timezone="Etc/GMT-5").take,
        ]
        first = [call("a") for call in calls]
        assert first == [1, 1, 1, HIT_QUOTA, ALLOWED, HIT_QUOTA, HIT_QUOTA, HIT_QUOTA, HIT_QUOTA]
        rates = [1, 2, 0.1, 0.11, Fraction(1, 3), Fraction("0.3333333"), Fraction(10**12 + 1, 10**13)]
        assert all(make(TokenLimiter, rate, 1).allow() for rate in rates)
        assert not any(make(TokenLimiter, rate, 1).allow() for rate in rates)

    def test_of_one_kind_and_numbers_share_their_state(self, make):
        assert [
            make(Counter, 2, datetime.timedelta(minutes=1)).hit("a"),
            make(Counter, 2, 60.0).hit("a"),
        ] == [1, 2]
        assert make(TokenLimiter, 1, 1).allow()
        assert not make(TokenLimiter, Decimal("1.0"), 1).allow()

    def test_a_name_keeps_the_state_when_the_numbers_change(self, make):
        for _ in range(3):
            make(Counter, 3, 60, name="kept").hit("a")
        assert make(Counter, 5, 60, name="kept").hit("a") == 4
        assert make(Counter, 3, 60, name="kept").hit("a") == -1

    def test_every_key_in_redis_expires(self, redis_server, redis_store, prefix):
        options = {"store": redis_store}
        for call in LIMITERS:
            for _ in range(5):
                call(options)
        for per in (1e-6, 0.001, 0.5, 1.5, 1e7):
            Counter(1, per, **options).hit("a")
            PeriodLimit(per, 1, **options).take("a")
        for rate, burst in ((0.001, 1), (1, 100), (1000, 1), (3, 1), (1e6, 1)):
            limiter = TokenLimiter(rate, burst, **options)
            limiter.allow()
        with closing(redis_server.client()) as raw:
            keys = list(raw.scan_iter(f"{prefix}*"))
            # What is gone by now has expired; what is there will.
            assert len(keys) >= 8
            assert all(raw.pttl(key) > 0 or not raw.exists(key) for key in keys)

    def test_the_module_lists_them(self):
        assert sorted(recipes.__all__) == [
            "Counter",
            "PeriodLimit",
            "PeriodState",
            "TokenLimiter",
            "wait_time",
        ]


def test_a_limiter_of_ones_own_and_a_recipe_of_its_name_are_one_policy(store, clock):
    counter = Counter(3, 60, store=store, clock=clock, name="shared")
    limiter = Limiter(FixedWindow(3, 60), store=store, clock=clock, name="shared")
    assert limiter.hit("a")
    assert counter.hit("a") == 2
    assert limiter.hit("a").remaining == 0
