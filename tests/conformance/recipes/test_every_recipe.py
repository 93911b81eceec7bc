"""What all recipes have in common; and of counters and tokens their documents' own traces."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from overlimit import FixedWindow, InvalidLimit, Limiter, MemoryStore, RedisStore, StoreError
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


NO_COUNTS = [-1, 1.5, True, "5", None]
NO_PERIODS = [0, -1, 1e-7, math.nan, math.inf, True, "day", None]
CANNOT_BE: dict[str, tuple[Callable[[Any], object], list[Any], str]] = {
    "limit of a counter": (lambda wrong: Counter(wrong, 60), [*NO_COUNTS, 2**53], "limit"),
    "window of a counter": (lambda wrong: Counter(5, wrong), NO_PERIODS, "per"),
    "period": (lambda wrong: PeriodLimit(wrong, 1), NO_PERIODS, "period"),
    "aligned period": (lambda wrong: PeriodLimit(wrong, 1, align=True), NO_PERIODS, "period"),
    "quota": (lambda wrong: PeriodLimit(60, wrong), NO_COUNTS, "quota"),
    "time zone": (
        lambda wrong: PeriodLimit(60, 1, align=True, timezone=wrong), ["Nowhere/At_All"], "timezone",
    ),
    "time zone of nothing": (lambda wrong: PeriodLimit(60, 1, timezone=wrong), ["Europe/Berlin"], "timezone"),
    "alignment": (lambda wrong: PeriodLimit(60, 1, align=wrong), ["yes"], "align"),
    "rate": (lambda wrong: TokenLimiter(wrong, 1), [-1, math.nan, "5", 0], "rate"),
    "burst": (lambda wrong: TokenLimiter(1, wrong), [-1, 1.5], "burst"),
    "share": (
        lambda wrong: TokenLimiter(1, 1, local_share=wrong), [0, -1, 1.5, math.nan, "1", None], "local_share",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "wrongs", "named"), CANNOT_BE.values(), ids=CANNOT_BE)
def test_numbers_that_cannot_be_are_refused_by_name(make, wrongs, named):
    for wrong in wrongs:
        with pytest.raises(InvalidLimit, match=named):
            make(wrong)


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

    @pytest.mark.parametrize("call", LIMITERS[:3], ids=["counter", "period", "aligned"])
    def test_raises_when_the_store_cannot_answer_unless_it_has_a_rescue(self, call):
        with pytest.raises(StoreError):
            call({"store": RedisStore("unix:///nowhere/redis.sock"), "name": "mine"})

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


def test_a_limiter_of_ones_own_and_a_recipe_of_its_name_are_one_policy(store, clock):
    counter = Counter(3, 60, store=store, clock=clock, name="shared")
    limiter = Limiter(FixedWindow(3, 60), store=store, clock=clock, name="shared")
    assert limiter.hit("a")
    assert counter.hit("a") == 2
    assert limiter.hit("a").remaining == 0


class TestCounter:
    def test_says_how_many_have_passed_and_then_minus_one(self, make):
        counter = make(Counter, 3, 60)
        assert [counter.hit("a") for _ in range(5)] == [1, 2, 3, -1, -1]
        assert counter.hit("b") == 1

    def test_its_window_starts_with_the_first_call_and_ends_to_the_microsecond(self, make, at):
        counter = make(Counter, 2, 3)
        at(1.5)
        assert [counter.hit("a"), counter.hit("a")] == [1, 2]
        at(4.499999)
        assert counter.hit("a") == -1
        at(4.5)
        assert counter.hit("a") == 1
        at(7.499999)
        assert counter.hit("a") == 2
        at(7.5)
        assert counter.hit("a") == 1


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

    def test_is_rescued_by_a_bucket_of_this_process_when_the_store_fails(self, clock):
        store = RedisStore("unix:///nowhere/redis.sock")
        limiter = TokenLimiter(5, 10, name="rescued", store=store, clock=clock)
        assert [limiter.allow() for _ in range(12)] == [True] * 10 + [False] * 2
        clock.advance(0.2)
        assert [limiter.allow(), limiter.allow()] == [True, False]
        with pytest.raises(ValueError, match="cost"):
            limiter.allow(-1)
