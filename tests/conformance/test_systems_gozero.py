"""go-zero's periodlimit and tokenlimit (Go): their counts, and each of their known flaws."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from overlimit import FixedWindow, InvalidLimit, Limiter, ManualClock, RedisStore, TokenBucket

from .outages import eventually

ID = "user:42"
US = 1e-6
BERLIN = ZoneInfo("Europe/Berlin")


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


def berlin(*moment: int) -> float:
    return datetime(*moment, tzinfo=BERLIN).timestamp()


class TestPeriodLimit:
    def test_of_100_takes_at_a_quota_of_5_four_are_allowed_one_is_the_last_95_are_over(self, build):
        limiter = build(FixedWindow(5, per=10))
        takes = [(each.allowed, each.remaining) for each in (limiter.hit(ID) for _ in range(100))]
        assert takes == [(True, 4), (True, 3), (True, 2), (True, 1), (True, 0)] + [(False, 0)] * 95

    @pytest.mark.parametrize("period", [0, -1, math.nan])
    def test_a_period_of_nothing_cannot_be_built(self, period):
        with pytest.raises(InvalidLimit, match="per"):
            FixedWindow(5, per=period)

    def test_a_period_of_one_and_a_half_seconds_is_one_and_a_half_seconds(self, build, at):
        limiter = build(FixedWindow(5, per=1.5))
        assert passed(limiter, 9) == 5
        at(1.5 - US)
        assert passed(limiter, 9) == 0
        at(1.5)
        assert passed(limiter, 9) == 5

    def test_a_period_of_one_and_a_half_seconds_leaves_redis_again(self, redis_store, redis_server, prefix):
        assert Limiter(FixedWindow(5, per=1.5), name="default", store=redis_store).hit(ID)
        with closing(redis_server.client()) as raw:
            assert 1000 < raw.pttl(f"{prefix}1:default:{ID}") <= 3500


class TestAlign:
    def aligned(self, store, unit, now, **options):
        limit = FixedWindow(1, per=unit, start="calendar", timezone="Europe/Berlin", **options)
        return Limiter(limit, name="default", store=store, clock=ManualClock(now))

    @pytest.mark.parametrize(
        ("month", "day", "hours"), [(1, 15, 24), (3, 28, 23), (10, 31, 25)], ids=["usual", "spring", "autumn"]
    )
    def test_a_day_ends_at_midnight_also_when_clocks_change(self, store, month, day, hours):
        limiter = self.aligned(store, "day", berlin(2027, month, day))
        assert limiter.hit(ID).reset_after == hours * 3600
        assert limiter.hit(ID).retry_after == hours * 3600
        limiter.clock.advance(hours * 3600 - US)
        assert not limiter.hit(ID)
        limiter.clock.advance(US)
        assert limiter.hit(ID)

    def test_a_period_ends_to_the_microsecond_and_not_to_the_second(self, store):
        limiter = self.aligned(store, "hour", berlin(2027, 1, 15, 12, 59, 58) + 0.75)
        assert limiter.hit(ID).reset_after == 1.25
        limiter.clock.advance(1.25 - US)
        assert limiter.hit(ID).retry_after == US
        limiter.clock.advance(US)
        assert limiter.hit(ID).reset_after == 3600

    @pytest.mark.parametrize(
        ("options", "days"), [({}, 3), ({"week_start": 6}, 2), ({"week_start": 3}, 6)], ids=str
    )
    def test_a_week_begins_on_monday_or_where_it_is_told_to(self, store, options, days):
        friday = berlin(2027, 1, 15)
        assert self.aligned(store, "week", friday, **options).hit(ID).reset_after == days * 86_400


class TestTokenLimiter:
    def test_two_nodes_one_second_apart_admit_55_of_1000_in_ten_seconds(self, store):
        clocks = [ManualClock(1_700_000_000), ManualClock(1_699_999_999)]
        nodes = [
            Limiter(TokenBucket(5, burst=5), name="default", store=store, clock=clock) for clock in clocks
        ]
        admitted = []
        for _ in range(500):
            admitted += [passed(node, 1) for node in nodes]
            for clock in clocks:
                clock.advance(0.02)
        assert len(admitted) == 1000
        # The clock that leads ends at 9.98 s, when 49 tokens have come back.
        assert sum(admitted) == 5 + 49
        clocks[0].set(1_700_000_010)
        assert passed(nodes[0], 10) == 1

    def test_a_lagging_node_alone_waits_until_its_clock_has_caught_up(self, store):
        ahead, behind = (
            Limiter(TokenBucket(5), name="default", store=store, clock=ManualClock(now))
            for now in (1000, 999)
        )
        assert passed(ahead, 9) == 5
        behind.clock.advance(1 + 0.2 - US)
        assert passed(behind, 9) == 0
        behind.clock.advance(US)
        assert passed(behind, 9) == 1

    @pytest.mark.parametrize(("rate", "burst"), [(10, 2), (1000, 1), (3, 1), (1_000_000, 10)])
    def test_a_rate_of_more_than_twice_the_burst_limits_like_any_other(self, build, at, rate, burst):
        limiter = build(TokenBucket(rate, burst=burst))
        assert passed(limiter, 50) == burst
        at(100)
        assert passed(limiter, 50) == burst

    @pytest.mark.parametrize(("rate", "burst"), [(10, 2), (1000, 1), (3, 1), (1_000_000, 10)])
    def test_a_rate_of_more_than_twice_the_burst_keeps_its_key(
        self, redis_store, redis_server, prefix, rate, burst
    ):
        assert Limiter(TokenBucket(rate, burst=burst), name="default", store=redis_store).hit(ID, cost=burst)
        with closing(redis_server.client()) as raw:
            assert 0 < raw.pttl(f"{prefix}1:default:{ID}") <= 3000

    def test_nothing_asked_is_refused_while_more_is_used_than_the_limit_now_allows(self, build, at):
        assert build(TokenBucket(1, burst=9)).hit(ID, cost=9)
        lowered = build(TokenBucket(1, burst=4))
        assert lowered.hit(ID, cost=0).status == "over"
        at(5)
        assert lowered.hit(ID, cost=0)
        assert not lowered.hit(ID)

    @pytest.mark.parametrize("n", [-1, -5])
    def test_a_negative_number_is_an_error_and_mints_nothing(self, build, n):
        limiter = build(TokenBucket(1, burst=9))
        assert limiter.hit(ID, cost=9)
        with pytest.raises(ValueError, match="cost"):
            limiter.hit(ID, cost=n)
        assert limiter.peek(ID, cost=0).remaining == 0


class TestTheRescue:
    @pytest.fixture
    def server(self, start_redis):
        return start_redis()

    @pytest.fixture
    def limiter(self, server, clock):
        store = RedisStore(server.tcp_url(), timeout=5.0)
        return Limiter(TokenBucket(5, burst=10), name="default", store=store, clock=clock, on_error="local")

    def test_goes_on_in_the_next_outage_where_this_one_ended(self, server, limiter, start_redis, clock):
        server.stop()
        assert (passed(limiter, 30), limiter.stats()["local"]) == (10, 30)
        again = start_redis(port=server.port)
        eventually(lambda: limiter.peek(ID).source, lambda source: source == "store")
        again.stop()
        before = limiter.stats()["local"]
        assert passed(limiter, 30) == 0
        clock.advance(1)
        assert passed(limiter, 30) == 5
        assert limiter.stats()["local"] - before == 60

    def test_decides_the_call_that_fails_and_none_that_the_store_answers(self, server, limiter):
        with closing(server.client()) as raw:
            raw.config_set("maxmemory-policy", "noeviction")
            sources = []
            for bytes_left in (0, 1, 0, 1, 0):
                raw.config_set("maxmemory", bytes_left)
                sources.append(limiter.hit(ID).source)
        assert sources == ["store", "local", "store", "local", "store"]
        assert limiter.peek(ID, cost=0).remaining == 7

    def test_is_not_called_by_an_argument_that_is_wrong(self, server, limiter):
        server.stop()
        with pytest.raises(ValueError, match="cost"):
            limiter.hit(ID, cost=-1)
        assert limiter.stats()["local"] == 0
