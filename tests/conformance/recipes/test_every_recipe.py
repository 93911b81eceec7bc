"""What all recipes have in common."""

from __future__ import annotations

from contextlib import closing

import pytest

from overlimit import FixedWindow, Limiter, MemoryStore, RedisStore, StoreError, recipes
from overlimit.recipes import Counter, PeriodLimit, PeriodState, TokenLimiter

ALLOWED, HIT_QUOTA, OVER_QUOTA = PeriodState.ALLOWED, PeriodState.HIT_QUOTA, PeriodState.OVER_QUOTA


LIMITERS = [
    lambda options: Counter(3, 60, **options).hit("a"),
    lambda options: PeriodLimit(60, 3, **options).take("a"),
    lambda options: PeriodLimit(60, 3, align=True, timezone="Europe/Berlin", **options).take("a"),
    lambda options: TokenLimiter(3, 3, **options).allow(),
]
EACH = pytest.mark.parametrize("call", LIMITERS, ids=["counter", "period", "aligned", "tokens"])


def is_refusal(answer: object) -> bool:
    """Tell whether a recipe's answer means that nothing has passed."""
    return answer is False or answer is OVER_QUOTA or answer == -1


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
            call({"store": RedisStore("unix:///nowhere/redis.sock"), "name": "mine"})

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
        assert first == [1, 1, 1, *[ALLOWED] * 6]

    @EACH
    def test_of_the_same_numbers_share_nothing_without_a_name(self, clock, call):
        options = {"store": MemoryStore(), "clock": clock}
        assert [call(options) for _ in range(5)] == [call(options)] * 5

    @EACH
    def test_of_the_same_numbers_share_their_counts_by_a_name(self, store, clock, call):
        options = {"store": store, "clock": clock, "name": "one"}
        answers = [call(options) for _ in range(5)]
        assert [is_refusal(answer) for answer in answers] == [False, False, False, True, True]

    @EACH
    def test_needs_a_name_on_a_store_that_others_see(self, redis_store, call):
        with pytest.raises(ValueError, match=r"RedisStore.* needs name=.*other processes"):
            call({"store": redis_store})

    def test_a_name_keeps_the_state_when_the_numbers_change(self, make):
        for _ in range(3):
            make(Counter, 3, 60, name="kept").hit("a")
        assert make(Counter, 5, 60, name="kept").hit("a") == 4
        assert make(Counter, 3, 60, name="kept").hit("a") == -1

    def test_every_key_in_redis_expires(self, redis_server, redis_store, prefix):
        for number, call in enumerate(LIMITERS):
            for _ in range(5):
                call({"store": redis_store, "name": f"recipe-{number}"})
        for per in (1e-6, 0.001, 0.5, 1.5, 1e7):
            Counter(1, per, name=f"counter-{per}", store=redis_store).hit("a")
            PeriodLimit(per, 1, name=f"period-{per}", store=redis_store).take("a")
        for rate, burst in ((0.001, 1), (1, 100), (1000, 1), (3, 1), (1e6, 1)):
            TokenLimiter(rate, burst, name=f"tokens-{rate}", store=redis_store).allow()
        with closing(redis_server.client()) as raw:
            keys = list(raw.scan_iter(f"{prefix}*"))
            # What is gone by now has expired; what is there will.
            assert len(keys) >= 8
            assert all(raw.pttl(key) > 0 or not raw.exists(key) for key in keys)

    def test_the_module_lists_them(self):
        assert sorted(recipes.__all__) == [
            "Concurrency",
            "Counter",
            "PeriodLimit",
            "PeriodState",
            "Slot",
            "TokenLimiter",
            "wait_time",
        ]


def test_a_limiter_of_ones_own_and_a_recipe_of_its_name_are_one_policy(store, clock):
    counter = Counter(3, 60, store=store, clock=clock, name="shared")
    limiter = Limiter(FixedWindow(3, 60), store=store, clock=clock, name="shared")
    assert limiter.hit("a")
    assert counter.hit("a") == 2
    assert limiter.hit("a").remaining == 0
