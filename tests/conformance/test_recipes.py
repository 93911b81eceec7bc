"""The recipes: the documents' own traces, and none of the flaws that were found in them."""

from __future__ import annotations

import datetime
import math
from collections import Counter as Tally
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    Limiter,
    ManualClock,
    RedisStore,
    SlidingWindow,
    StoreError,
    TokenBucket,
    hit_all,
    recipes,
)
from overlimit.recipes import Counter, PeriodLimit, PeriodState, TokenLimiter, wait_time

START = 1_700_000_000
ALLOWED, HIT_QUOTA, OVER_QUOTA = PeriodState.ALLOWED, PeriodState.HIT_QUOTA, PeriodState.OVER_QUOTA


@pytest.fixture
def make(store, clock):
    """Return a function that builds a recipe on the store and the clock of this test."""

    def recipe(kind, *numbers, **options):
        return kind(*numbers, **{"store": store, "clock": clock, **options})

    return recipe


@pytest.fixture
def berlin(clock):
    """Return a function that moves the clock to a local time in Berlin."""

    def move(*when, microseconds=0):
        local = datetime.datetime(*when, tzinfo=ZoneInfo("Europe/Berlin"))
        clock.set(int(local.timestamp()))
        clock.advance(microseconds / 1e6)

    return move


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

    def test_1000_per_3_s_lets_1980_pass_in_3_seconds_where_a_sliding_window_does_not(self, make, build, at):
        counter, sliding = make(Counter, 1000, 3), build(SlidingWindow(1000, 3))
        passed = {"counter": [], "sliding": []}
        for second, load in enumerate([10, 10, 980, 900, 100, 0]):
            at(second)
            passed["counter"].append(sum(counter.hit("a") > 0 for _ in range(load)))
            passed["sliding"].append(sum(bool(sliding.hit("a")) for _ in range(load)))
        assert passed["counter"] == [10, 10, 980, 900, 100, 0]
        assert sum(passed["counter"][2:5]) == 1980
        assert all(sum(passed["sliding"][i : i + 3]) <= 1000 for i in range(6))
        assert passed["sliding"][:3] == [10, 10, 980]

    def test_a_limit_of_0_refuses_the_first(self, make, at):
        counter = make(Counter, 0, 1)
        for second in range(3):
            at(second)
            assert counter.hit("a") == -1

    def test_half_a_second_is_half_a_second(self, make, at):
        counter = make(Counter, 1, 0.5)
        assert counter.hit("a") == 1
        at(0.499999)
        assert counter.hit("a") == -1
        at(0.5)
        assert counter.hit("a") == 1

    def test_a_refused_call_does_not_lengthen_the_window(self, make, at):
        counter = make(Counter, 1, 1)
        assert counter.hit("a") == 1
        for ms in range(0, 1000, 100):
            at(ms / 1000)
            assert counter.hit("a") == -1
        at(1)
        assert counter.hit("a") == 1

    def test_a_clock_that_goes_back_neither_grants_nor_takes(self, make, at):
        counter = make(Counter, 2, 10)
        at(100)
        assert counter.hit("a") == 1
        at(0)
        assert [counter.hit("a"), counter.hit("a")] == [2, -1]
        at(109.999999)
        assert counter.hit("a") == -1
        at(110)
        assert counter.hit("a") == 1

    def test_never_more_than_its_limit_in_a_window_and_never_less(self, make, at):
        counter, answers = make(Counter, 7, 1), []
        for ms in range(0, 10_000, 10):
            at(ms / 1000)
            answers.append(counter.hit("a"))
        assert answers == ([1, 2, 3, 4, 5, 6, 7] + [-1] * 93) * 10

    @pytest.mark.parametrize("limit", [-1, 1.5, True, "5", None, 2**53])
    def test_a_limit_that_cannot_be(self, make, limit):
        with pytest.raises(InvalidLimit, match="limit"):
            make(Counter, limit, 60)

    @pytest.mark.parametrize("per", [0, -1, 1e-7, math.nan, math.inf, True, "day", None])
    def test_a_window_that_cannot_be(self, make, per):
        with pytest.raises(InvalidLimit, match="per"):
            make(Counter, 5, per)

    @pytest.mark.parametrize("key", ["", b""])
    def test_an_empty_key_is_an_error(self, make, key):
        with pytest.raises(ValueError, match="identifier"):
            make(Counter, 5, 60).hit(key)


class TestWaitTime:
    def test_of_one_bucket(self, build):
        limiter = build(TokenBucket(2, per=1, burst=100))
        assert [wait_time(limiter.hit("a", cost=cost)) for cost in (50, 40, 40)] == [0, 0, 15]

    def test_of_three_buckets_is_the_longest(self, build, at):
        limiter = build([TokenBucket(4, burst=40), TokenBucket(2, burst=50), TokenBucket(1, burst=200)])
        waits = []
        for second in (0, 10, 15):
            at(second)
            waits.append(wait_time(limiter.hit("a", cost=40)))
        assert waits == [0, 5, 0]

    def test_is_enough_and_not_a_unit_too_long(self, build, clock):
        limiter = build(TokenBucket(0.29, per=1, burst=100))
        limiter.hit("a", cost=100)
        for _ in range(50):
            wait = wait_time(limiter.peek("a", cost=7))
            assert not limiter.peek("a", cost=8)
            clock.advance(wait - 1)
            assert not limiter.hit("a", cost=7)
            clock.advance(1)
            assert limiter.hit("a", cost=7)

    @pytest.mark.parametrize(
        ("unit", "wait"),
        [
            (1, 4),
            (1.0, 4),
            (2, 2),
            (60, 1),
            (0.001, 3001),
            (0.1, 31),
            (1e-6, 3_000_001),
            (Fraction(1, 3), 10),
            (Decimal("0.5"), 7),
            (datetime.timedelta(milliseconds=1), 3001),
            (10**400, 1),
            (1e300, 1),
        ],
    )
    def test_is_rounded_up_in_any_unit(self, build, at, unit, wait):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        at(6.999999)
        assert limiter.peek("a").retry_after == 3.000001
        assert wait_time(limiter.hit("a"), unit) == wait

    @pytest.mark.parametrize(
        ("unit", "wait"), [(1, 3), (0.1, 30), (0.001, 3000), (Fraction(1, 3), 9), (3, 1)]
    )
    def test_a_whole_number_of_units_is_not_rounded(self, build, at, unit, wait):
        limiter = build(FixedWindow(1, 10))
        limiter.hit("a")
        at(7)
        assert wait_time(limiter.hit("a"), unit) == wait

    def test_is_minus_one_for_what_never_passes(self, build):
        limiter = build([FixedWindow(5, 60), TokenBucket(3, 1)])
        assert wait_time(limiter.hit("a", cost=4)) == -1
        assert wait_time(limiter.hit("a", cost=10**30), unit=0.001) == -1
        assert wait_time(build(FixedWindow(0, 60), name="none").hit("a")) == -1

    def test_is_0_for_a_cost_of_0_and_for_an_admitted_call_with_a_delay(self, build):
        limiter = build(LeakyBucket(1, per=10, capacity=5))
        assert [wait_time(limiter.hit("a", cost=cost)) for cost in (0, 1, 1)] == [0, 0, 0]

    def test_a_negative_cost_mints_nothing(self, build):
        limiter = build(TokenBucket(2, per=1, burst=100))
        limiter.hit("a", cost=100)
        with pytest.raises(ValueError, match="cost"):
            limiter.hit("a", cost=-50)
        assert wait_time(limiter.hit("a", cost=50)) == 25

    def test_the_order_of_buckets_changes_nothing(self, build):
        buckets = [TokenBucket(4, burst=40), TokenBucket(2, burst=50), TokenBucket(1, burst=200)]
        build(buckets).hit("a", cost=40)
        assert (
            wait_time(build(buckets[::-1]).hit("a", cost=40))
            == wait_time(build(buckets).hit("a", cost=40))
            == 15
        )

    def test_reads_the_decisions_of_hit_all_and_of_locks(self, build):
        one, other = build(FixedWindow(1, 60), name="one"), build(FixedWindow(1, 90), name="other")
        assert wait_time(hit_all([(one, "a", 1), (other, "a", 1)])) == 0
        assert wait_time(hit_all([(one, "a", 1), (other, "a", 1)])) == 90
        one.lock("b", 7.5)
        assert wait_time(one.hit("b")) == 8

    @pytest.mark.parametrize(
        "unit",
        [
            0,
            0.0,
            -1,
            -1e-9,
            math.nan,
            math.inf,
            -math.inf,
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
        ],
    )
    def test_a_unit_that_is_no_length_is_a_value_error(self, build, unit):
        limiter = build(FixedWindow(1, 60))
        for decision in (limiter.hit("a"), limiter.hit("a"), limiter.hit("a", cost=2)):
            with pytest.raises(ValueError, match="unit"):
                wait_time(decision, unit)

    @pytest.mark.parametrize("unit", [True, "1", None, [1]])
    def test_a_unit_that_is_no_number_is_a_type_error(self, build, unit):
        with pytest.raises(TypeError, match="unit"):
            wait_time(build(FixedWindow(1, 60)).hit("a"), unit)


class TestPeriodLimit:
    @pytest.mark.parametrize("align", [False, True])
    def test_100_takes_of_a_quota_of_5(self, make, align):
        limiter = make(PeriodLimit, 60, 5, align=align)
        taken = [limiter.take("a") for _ in range(100)]
        assert taken == [ALLOWED] * 4 + [HIT_QUOTA] + [OVER_QUOTA] * 95
        assert Tally(limiter.take("b") for _ in range(100)) == {ALLOWED: 4, HIT_QUOTA: 1, OVER_QUOTA: 95}

    def test_a_quota_of_1_is_hit_at_once_and_one_of_0_is_over(self, make):
        one, none = make(PeriodLimit, 60, 1), make(PeriodLimit, 60, 0)
        assert [one.take("a"), one.take("a")] == [HIT_QUOTA, OVER_QUOTA]
        assert [none.take("a"), none.take("a")] == [OVER_QUOTA, OVER_QUOTA]

    def test_the_states_are_the_published_numbers(self):
        assert {state.name: int(state) for state in PeriodState} == {
            "UNKNOWN": 0,
            "ALLOWED": 1,
            "HIT_QUOTA": 2,
            "OVER_QUOTA": 3,
        }

    def test_a_period_starts_with_the_first_take(self, make, at):
        limiter = make(PeriodLimit, 60, 1)
        at(30)
        assert limiter.take("a") == HIT_QUOTA
        at(89.999999)
        assert limiter.take("a") == OVER_QUOTA
        at(90)
        assert limiter.take("a") == HIT_QUOTA

    def test_a_period_of_one_and_a_half_seconds_is_that(self, make, at):
        limiter = make(PeriodLimit, 1.5, 2)
        assert [limiter.take("a") for _ in range(3)] == [ALLOWED, HIT_QUOTA, OVER_QUOTA]
        at(1.499999)
        assert limiter.take("a") == OVER_QUOTA
        at(1.5)
        assert limiter.take("a") == ALLOWED

    @pytest.mark.parametrize(
        ("period", "inside", "end"),
        [
            (1, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 14, 30, 13)),
            (60, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 14, 31)),
            (3600, (2023, 5, 17, 14, 30, 12), (2023, 5, 17, 15)),
            (86400, (2023, 5, 17, 14, 30, 12), (2023, 5, 18)),
            (604800, (2023, 5, 17, 14, 30, 12), (2023, 5, 22)),  # a Wednesday; Monday the 22nd
            (86400, (2023, 3, 26, 0, 0, 0), (2023, 3, 27)),  # of 23 hours
            (86400, (2023, 10, 29, 0, 0, 0), (2023, 10, 30)),  # of 25 hours
            (604800, (2023, 10, 28, 23, 0, 0), (2023, 10, 30)),
        ],
    )
    def test_an_aligned_period_ends_on_the_local_calendar(self, make, berlin, period, inside, end):
        limiter = make(PeriodLimit, period, 1, align=True, timezone="Europe/Berlin")
        berlin(*inside)
        assert [limiter.take("a"), limiter.take("a")] == [HIT_QUOTA, OVER_QUOTA]
        berlin(*end, microseconds=-1)
        assert limiter.take("a") == OVER_QUOTA
        berlin(*end)
        assert [limiter.take("a"), limiter.take("a")] == [HIT_QUOTA, OVER_QUOTA]

    def test_hours_that_are_repeated_are_two_hours(self, make, clock):
        limiter = make(PeriodLimit, 3600, 1, align=True, timezone="Europe/Berlin")
        first = int(datetime.datetime(2023, 10, 29, 0, 0, tzinfo=datetime.timezone.utc).timestamp())
        taken = []
        for quarter in range(8):
            clock.set(first + 900 * quarter)
            taken.append(limiter.take("a"))
        assert taken == ([HIT_QUOTA] + [OVER_QUOTA] * 3) * 2

    def test_the_calendar_is_utc_by_default(self, make, at):
        limiter = make(PeriodLimit, 86400, 1, align=True)
        day = -(-START // 86400) * 86400 - START
        at(day - 1)
        assert limiter.take("a") == HIT_QUOTA
        at(day - 0.000001)
        assert limiter.take("a") == OVER_QUOTA
        at(day)
        assert limiter.take("a") == HIT_QUOTA

    @pytest.mark.parametrize("period", [2, 59, 61, 1.5, 7200, 604801, 2592000])
    def test_other_periods_have_no_calendar(self, make, period):
        assert make(PeriodLimit, period, 1).take("a") == HIT_QUOTA
        with pytest.raises(ValueError, match="period"):
            make(PeriodLimit, period, 1, align=True)

    @pytest.mark.parametrize("align", [False, True])
    @pytest.mark.parametrize("period", [0, -1, 1e-7, math.nan, math.inf, True, "day", None])
    def test_a_period_that_cannot_be(self, make, period, align):
        with pytest.raises(InvalidLimit, match="period"):
            make(PeriodLimit, period, 1, align=align)

    @pytest.mark.parametrize("quota", [-1, 1.5, True, "5", None])
    def test_a_quota_that_cannot_be(self, make, quota):
        with pytest.raises(InvalidLimit, match="quota"):
            make(PeriodLimit, 60, quota)

    def test_time_zones_that_mean_nothing(self, make):
        with pytest.raises(InvalidLimit, match="timezone"):
            make(PeriodLimit, 60, 1, timezone="Europe/Berlin")
        with pytest.raises(InvalidLimit, match="timezone"):
            make(PeriodLimit, 60, 1, align=True, timezone="Nowhere/At_All")
        with pytest.raises(InvalidLimit, match="align"):
            make(PeriodLimit, 60, 1, align="yes")

    @pytest.mark.parametrize("align", [False, True])
    def test_a_clock_that_goes_back_neither_grants_nor_takes(self, make, at, align):
        limiter = make(PeriodLimit, 60, 2, align=align)
        at(600)
        assert limiter.take("a") == ALLOWED
        at(0)
        assert [limiter.take("a"), limiter.take("a")] == [HIT_QUOTA, OVER_QUOTA]
        at(599)
        assert limiter.take("a") == OVER_QUOTA
        at(660)
        assert limiter.take("a") == ALLOWED


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

    def test_two_nodes_a_second_apart_get_no_more_and_no_less_than_one(self, store):
        ahead, behind = ManualClock(START), ManualClock(START)
        nodes = [TokenLimiter(5, 5, store=store, clock=clock) for clock in (ahead, behind)]
        passed = 0
        for ms in range(0, 10_000, 20):
            ahead.set(START + ms / 1000)
            behind.set(START + ms / 1000 - 1)
            passed += sum(node.allow() for node in nodes)
        assert 50 <= passed <= 55

    @pytest.mark.parametrize(("rate", "burst"), [(100, 5), (1000, 1), (11, 5), (0.5, 1), (7, 100)])
    def test_admits_what_rate_and_burst_say_whatever_their_ratio(self, make, clock, rate, burst):
        limiter, passed = make(TokenLimiter, rate, burst), 0
        for _ in range(2000):
            passed += limiter.allow()
            clock.advance(0.001)
        assert math.floor(burst + rate * 1.999) - 1 <= passed <= burst + rate * 2
        if rate <= 100:
            assert passed == math.floor(burst + rate * 1.999)

    def test_no_tokens_are_always_there_and_take_nothing(self, make):
        limiter = make(TokenLimiter, 1, 2)
        assert [limiter.allow(0) for _ in range(5)] == [True] * 5
        assert [limiter.allow(2), limiter.allow(0), limiter.allow()] == [True, True, False]

    def test_no_tokens_are_refused_while_more_are_used_than_a_lowered_burst_holds(self, make):
        assert make(TokenLimiter, 1, 9, name="lowered").allow(9)
        assert not make(TokenLimiter, 1, 2, name="lowered").allow(0)

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

    def test_a_clock_that_goes_back_neither_grants_nor_takes(self, make, at):
        limiter = make(TokenLimiter, 1, 3)
        at(100)
        assert limiter.allow(3)
        at(0)
        assert not limiter.allow()
        at(100.999999)
        assert not limiter.allow()
        at(101)
        assert [limiter.allow(), limiter.allow()] == [True, False]

    def test_is_rescued_by_a_bucket_of_this_process_when_the_store_fails(self, clock):
        limiter = TokenLimiter(5, 10, store=RedisStore("unix:///nowhere/redis.sock"), clock=clock)
        assert [limiter.allow() for _ in range(12)] == [True] * 10 + [False] * 2
        clock.advance(0.2)
        assert [limiter.allow(), limiter.allow()] == [True, False]
        with pytest.raises(ValueError, match="cost"):
            limiter.allow(-1)

    def test_is_rescued_by_its_share(self, clock):
        store = RedisStore("unix:///nowhere/redis.sock")
        limiter = TokenLimiter(5, 10, store=store, clock=clock, local_share=0.25)
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


def test_a_limiter_of_ones_own_and_a_recipe_of_its_name_are_one_policy(store, clock):
    counter = Counter(3, 60, store=store, clock=clock, name="shared")
    limiter = Limiter(FixedWindow(3, 60), store=store, clock=clock, name="shared")
    assert limiter.hit("a")
    assert counter.hit("a") == 2
    assert limiter.hit("a").remaining == 0
