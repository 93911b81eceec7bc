"""Several limits for several identifiers, after Josiah Carlson (Python): each of its known flaws."""

from __future__ import annotations

from contextlib import closing

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    over_limit_multi,
    over_limit_sliding_window,
)

from .monitoring import commands_during

ID = "user:42"
US = 1e-6


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


class TestWindows:
    def test_120_a_minute_are_120_around_the_full_minute_too(self, build, clock):
        limiter = build("120/minute")
        clock.set(1_700_000_040 - 0.05)
        assert passed(limiter, 300) == 120
        clock.advance(0.1)
        assert passed(limiter, 300) == 0
        # The 120 are in the last block of their minute, which leaves a minute after its end.
        clock.set(1_700_000_100 - US)
        assert passed(limiter, 300) == 0
        clock.set(1_700_000_100)
        assert passed(limiter, 300) == 120

    def test_without_a_precision_the_functions_admit_240_in_a_tenth_of_a_second(self, store):
        clock, admitted = ManualClock(1_700_000_040 - 0.05), 0
        for _ in range(2):
            calls = [over_limit_multi(store, [(60, 120)], identifiers=ID, clock=clock) for _ in range(300)]
            admitted += calls.count(False)
            clock.advance(0.1)
        assert admitted == 240

    def test_with_a_precision_no_window_is_short_by_a_part_of_it(self, store):
        # At 10 per 10 s and a precision of 1 s the original admits 20 within 9.01 s.
        clock, admitted = ManualClock(1_700_000_000.99), []
        for _ in range(2000):
            if not over_limit_sliding_window(store, 1, [(10, 10, 1)], identifiers=ID, clock=clock):
                admitted.append(clock.now())
            clock.advance(0.01)
        assert len(admitted) == 20
        assert max(sum(at <= later < at + 10 for later in admitted) for at in admitted) == 10

    def test_a_precision_below_a_second_admits_the_limit(self, build, at):
        limiter = build(SlidingWindow(10, per=1, precision=0.125))
        assert passed(limiter, 30) == 10
        at(1 + 0.125 - US)
        assert passed(limiter, 30) == 0
        at(1 + 0.125)
        assert passed(limiter, 30) == 10

    def test_a_duration_below_a_second_ends(self, build, at):
        limiter = build(
            [SlidingWindow(10, per=0.5, precision=0.125), FixedWindow(10, per=0.25, start="epoch")]
        )
        assert passed(limiter, 30) == 10
        at(0.5 + 0.125 - US)
        assert passed(limiter, 30) == 0
        at(0.5 + 0.125)
        assert passed(limiter, 30) == 10

    def test_a_duration_below_a_second_leaves_redis_again(self, redis_store, redis_server, prefix):
        limits = [SlidingWindow(10, per=0.5, precision=0.125), FixedWindow(10, per=0.25, start="epoch")]
        assert Limiter(limits, name="default", store=redis_store).hit(ID)
        with closing(redis_server.client()) as raw:
            assert 0 < raw.pttl(f"{prefix}1:default:{ID}") <= 2000


class TestLaggingClients:
    def test_take_no_capacity_for_ever(self, store, clock):
        limiter = Limiter(SlidingWindow(10, per=10, precision=1), name="default", store=store, clock=clock)
        late = Limiter(
            SlidingWindow(10, per=10, precision=1),
            name="default",
            store=store,
            clock=ManualClock(clock.now() - 30),
        )
        assert limiter.hit(ID)
        assert passed(late, 5) == 5
        assert passed(limiter, 30) == 4
        clock.advance(11 - US)
        assert passed(limiter, 30) == 0
        clock.advance(US)
        assert passed(limiter, 30) == 10

    def test_get_no_capacity_of_their_own(self, store, clock):
        ahead = Limiter(SlidingWindow(10, per=10, precision=1), name="default", store=store, clock=clock)
        assert passed(ahead, 30) == 10
        for lag in (0.001, 1, 9, 10, 11, 3600):
            late = Limiter(ahead.limits[0], name="default", store=store, clock=ManualClock(clock.now() - lag))
            assert passed(late, 30) == 0


class TestWeights:
    def test_of_nothing_cost_nothing_and_break_nothing(self, build):
        limiter = build(SlidingWindow(10, per=10, precision=1))
        assert passed(limiter, 20, cost=0) == 20
        assert passed(limiter, 3, cost=4) == 2
        assert passed(limiter, 20, cost=0) == 20
        assert passed(limiter, 20) == 2

    @pytest.mark.parametrize(
        ("weight", "error"), [(0.5, TypeError), (1.0, TypeError), ("1", TypeError), (-1, ValueError)]
    )
    def test_that_are_no_whole_numbers_from_0_are_errors_before_anything_is_written(
        self, build, weight, error
    ):
        limiter = build([SlidingWindow(10, per=10, precision=1), FixedWindow(10, per=10)])
        assert limiter.hit("ip:1", ID, cost=6)
        with pytest.raises(error, match="cost"):
            limiter.hit("ip:1", ID, cost=weight)
        assert [row.remaining for row in limiter.peek("ip:1", ID, cost=0).details] == [4] * 4


class TestListsOfThem:
    def test_the_same_identifier_twice_counts_once(self, build):
        limiter = build(SlidingWindow(10, per=10))
        assert sum(bool(limiter.hit(ID, "ip:1", ID)) for _ in range(30)) == 10

    def test_the_same_limit_twice_admits_what_it_admits_once(self, build):
        assert passed(build([(60, 10), (60, 10)]), 30) == 10
        assert passed(build([(60, 10, 1), (60, 10, 1)], name="sliding"), 30) == 10

    def test_a_refusal_charges_no_limit_and_no_identifier(self, build):
        limiter = build([(1, 10), (60, 3), (3600, 240, 60)])
        assert sum(bool(limiter.hit("ip:1", ID)) for _ in range(30)) == 3
        rows = limiter.peek("ip:1", "user:43", cost=0).details
        assert [row.remaining for row in rows] == [7, 0, 237, 10, 3, 240]
        assert not limiter.hit("ip:1", "user:43")
        assert [row.remaining for row in limiter.peek("user:43", cost=0).details] == [10, 3, 240]

    def test_decisions_say_what_remains_and_when_to_come_back(self, build, at):
        limiter = build([FixedWindow(10, per=1), FixedWindow(3, per=60)])
        decisions = [limiter.hit("ip:1", ID) for _ in range(4)]
        assert [decision.remaining for decision in decisions] == [2, 1, 0, 0]
        assert (decisions[3].retry_after, decisions[3].limit) == (60.0, FixedWindow(3, per=60))
        at(60 - US)
        assert not limiter.hit("ip:1", ID)
        at(60)
        assert limiter.hit("ip:1", ID)

    def test_waves_at_the_start_of_a_window_are_spread_by_a_shorter_limit(self, build, at):
        limiter, counts = build("10/second; 120/minute"), []
        for second in range(0, 24, 2):
            at(second)
            counts.append(passed(limiter, 200))
        assert counts == [10] * 12


class TestChangedPrecision:
    def test_is_another_limit_and_the_record_of_the_old_one_goes_when_it_expires(
        self, redis_store, redis_server, prefix, clock
    ):
        def limited(precision):
            return Limiter(
                SlidingWindow(10, per=10, precision=precision), name="default", store=redis_store, clock=clock
            )

        with closing(redis_server.client()) as raw:
            key = f"{prefix}1:default:{ID}"
            assert passed(limited(1), 30) == 10
            assert raw.strlen(key) == 52
            assert passed(limited(2), 30) == 10
            assert raw.strlen(key) == 52 + 44
            clock.advance(12)
            assert passed(limited(2), 30) == 10
            assert raw.strlen(key) == 52


class TestBoundedWork:
    LARGEST = (SlidingWindow(99_999, per=4096, precision=1), SlidingLog(10_000, per=4096))
    EACH = pytest.mark.parametrize("limit", LARGEST, ids=lambda limit: limit.algorithm)

    @pytest.fixture
    def full(self, store, clock):
        """Return a function that gives a limiter whose record is as long as it can be."""

        def filled(limit):
            limiter = Limiter(limit, name="default", store=store, clock=clock)
            for _ in range(8_100 if isinstance(limit, SlidingLog) else 4097):
                assert limiter.hit(ID)
                clock.advance(0.001 if isinstance(limit, SlidingLog) else 1)
            return limiter

        return filled

    @EACH
    def test_thousands_of_stale_entries_are_no_error_and_free_everything(self, full, clock, limit):
        limiter, most = full(limit), limit.limit
        clock.advance(limiter.peek(ID, cost=0).reset_after - US)
        assert limiter.peek(ID, cost=0).remaining == most - 1
        assert passed(limiter, 3) == 3
        assert limiter.peek(ID, cost=0).remaining == most - 4
        clock.advance(86_400)
        assert limiter.peek(ID, cost=0).remaining == most
        assert limiter.hit(ID).remaining == most - 1

    @pytest.mark.parametrize("gap", [0, 1, 60, 86_400, 31 * 86_400])
    def test_a_gap_of_any_length_costs_one_read_and_one_write(self, start_redis, clock, gap):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=10.0)
        limiter = Limiter(
            SlidingWindow(9999, per=3600, precision=1), name="default", store=store, clock=clock
        )
        for _ in range(10):
            assert limiter.hit(ID)
            clock.advance(1)
        clock.advance(gap)
        seen = commands_during(server, lambda: limiter.hit(ID))
        assert [command[0] for command in seen.of_scripts] == ["GET", "SET"]
        assert len(seen.of_clients) == 1
        with closing(server.client()) as raw:
            assert raw.strlen(f"ol1:default:{ID}") == 52 + 16 * (10 if gap < 3600 else 0)

    def test_three_limits_for_two_identifiers_are_one_round_trip(self, start_redis, clock):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=10.0)
        limiter = Limiter([(1, 10), (60, 120), (3600, 240, 60)], name="default", store=store, clock=clock)
        assert limiter.hit("ip:1", ID)
        seen = commands_during(server, lambda: limiter.hit("ip:1", ID))
        assert len(seen.of_clients) == 1
        assert sorted(command[0] for command in seen.of_scripts) == ["GET", "GET", "SET", "SET"]
        assert seen.touched_keys == seen.declared_keys == {"ol1:default:ip:1", f"ol1:default:{ID}"}
