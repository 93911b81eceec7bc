"""FireflySoft.RateLimit (C#): its deterministic traces, and each of its known flaws."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    hit_all,
)

ID = "user:42"
US = 1e-6
LIMITS = [
    FixedWindow(2, per=10),
    FixedWindow(2, per="minute", start="calendar"),
    SlidingWindow(2, per=10, precision=1),
    SlidingLog(2, per=10),
    SlidingWindowCounter(2, per=10),
    TokenBucket(2, per=10),
    TokenBucket(2, per=10, refill="interval"),
    LeakyBucket(1, per=10, capacity=1),
]
EACH = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.algorithm}-{limit.label}")


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


class TestTraces:
    def test_of_80_requests_the_token_bucket_refuses_21_32_and_43_to_80(self, build, clock):
        limiter, refused = build(TokenBucket(10, per=1, burst=20, refill="interval")), []
        for number in range(1, 81):
            if not limiter.hit(ID):
                refused.append(number)
            if number in (21, 32):
                clock.advance(1)
        assert refused == [21, 32, *range(43, 81)]

    def test_the_leaky_bucket_admits_40_at_one_instant_and_refuses_the_41st(self, build):
        limiter = build(LeakyBucket(10, per=1, capacity=30))
        decisions = [limiter.hit(ID) for _ in range(41)]
        assert [decision.allowed for decision in decisions] == [True] * 40 + [False]
        assert [decision.delay for decision in decisions[:40]] == [0.0] * 10 + [1.0] * 10 + [2.0] * 10 + [
            3.0
        ] * 10
        assert (decisions[40].status, decisions[40].retry_after, decisions[40].delay) == ("over", 1.0, 0.0)

    def test_at_one_request_per_millisecond_the_leaky_delays_are_its_own(self, build, at):
        limiter, delays = build(LeakyBucket(10, per=1, capacity=30)), {}
        for number in range(1, 23):
            at((number - 1) / 1000)
            delays[number] = limiter.hit(ID).delay
        assert [delays[number] for number in (10, 11, 12, 21, 22)] == [0.0, 0.990, 0.989, 1.980, 1.979]

    @pytest.mark.parametrize(
        ("unit", "since"), [("day", 76_881.211), ("hour", 1281.211), ("minute", 21.211), ("second", 0.211)]
    )
    def test_a_natural_period_starts_at_the_floor_of_its_unit(self, store, unit, since):
        clock = ManualClock(datetime(2027, 1, 15, 21, 21, 21, 211_000, timezone.utc).timestamp())
        limiter = Limiter(
            FixedWindow(1, per=unit, start="calendar"), name="default", store=store, clock=clock
        )
        length = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}[unit]
        assert limiter.hit(ID).reset_after == round(length - since, 6)
        assert limiter.hit(ID).retry_after == round(length - since, 6)
        clock.advance(length - since - US)
        assert not limiter.hit(ID)
        clock.advance(US)
        assert limiter.hit(ID).reset_after == length

    def test_a_limit_raised_from_50_to_60_admits_the_difference(self, build):
        limiter = build(FixedWindow(50, per=1))
        assert passed(limiter, 60) == 50
        limiter.update(FixedWindow(60, per=1))
        assert passed(limiter, 60) == 10

    def test_a_limit_lowered_from_60_to_50_refuses_until_the_window_is_over(self, build, at):
        limiter = build(FixedWindow(60, per=1))
        assert passed(limiter, 55) == 55
        limiter.update(FixedWindow(50, per=1))
        assert passed(limiter, 60) == 0
        at(1)
        assert passed(limiter, 60) == 50


class TestFirstUse:
    @EACH
    def test_is_checked_like_every_other(self, build, limit):
        limiter = build(limit)
        assert limiter.hit(ID, cost=5).status == "never"
        assert (limiter.peek(ID, cost=0).remaining, limiter.peek(ID, cost=0).reset_after) == (2, 0.0)
        assert passed(limiter, 5) == 2


class TestTokenBucket:
    def test_of_ten_never_gives_more_than_ten_at_one_instant(self, build, at):
        limiter = build(TokenBucket(10, per=1, refill="interval"))
        assert passed(limiter, 8) == 8
        for second in (1, 2, 100.5):
            at(second)
            assert passed(limiter, 18) == 10

    def test_that_is_small_and_slow_is_not_reborn_full(self, build, at):
        limiter, admitted = build(TokenBucket(1, per=10, refill="interval")), 0
        for second in range(30):
            at(second)
            admitted += passed(limiter, 3)
        assert admitted == 3

    def test_that_is_small_and_slow_outlives_its_refill_in_redis(self, redis_store, redis_server, prefix):
        limiter = Limiter(
            TokenBucket(1, per=10, burst=3, refill="interval"), name="default", store=redis_store
        )
        reset = [limiter.hit(ID).reset_after for _ in range(3)][-1]
        with redis_server.client() as raw:
            assert 29 < reset <= 30 < raw.pttl(f"{prefix}1:default:{ID}") / 1000 < 35


class TestRefusals:
    def test_say_whether_the_limit_or_a_lock_refuses(self, build, at):
        limiter = build(FixedWindow(1, per=1), penalty=Penalty(5))
        assert [limiter.hit(ID).status for _ in range(3)] == ["ok", "over", "locked"]
        at(5 - US)
        assert (limiter.hit(ID).status, limiter.hit(ID).retry_after) == ("locked", US)
        at(5)
        assert limiter.hit(ID).status == "ok"

    @EACH
    def test_of_a_larger_cost_starve_nobody(self, build, clock, limit):
        limiter = build(limit)
        assert passed(limiter, 1) == 1
        assert passed(limiter, 50, cost=2) == 0
        assert passed(limiter, 5) == 1
        clock.advance(limiter.peek(ID, cost=2).retry_after)
        assert passed(limiter, 1, cost=2) == 1

    @EACH
    def test_by_one_rule_charge_no_other_rule(self, build, limit):
        limiter = build([limit, FixedWindow(1, per=100, name="strict")])
        assert passed(limiter, 50) == 1
        assert [row.remaining for row in limiter.peek(ID, cost=0).details] == [1, 0]

    def test_for_one_target_charge_no_other_target_and_no_other_policy(self, build):
        pages, logins = build("5/minute", name="pages"), build("1/minute", name="logins")
        assert hit_all([(pages, "ip:1"), (logins, ID)])
        assert [bool(hit_all([(pages, "ip:1"), (logins, ID)])) for _ in range(20)] == [False] * 20
        assert pages.peek("ip:1", cost=0).remaining == 4

    def test_become_one_retry_after_header_that_suffices_for_all_rules(self, clock):
        import flask

        from overlimit.flask import RateLimit

        app = flask.Flask("test")
        RateLimit(app, default_limits=[FixedWindow(1, per=60), FixedWindow(1, per=90)], clock=clock)
        app.add_url_rule("/", view_func=lambda: "hello")
        client = app.test_client()
        assert client.get("/").status_code == 200
        assert client.get("/").headers.getlist("Retry-After") == ["90"]
        clock.advance(89.9)
        assert client.get("/").status_code == 429
        clock.advance(0.1)
        assert client.get("/").status_code == 200


class TestUpdates:
    @pytest.mark.parametrize("elapsed", [2.0, 5.0, 9.0])
    def test_a_window_that_is_narrowed_when_it_would_be_over_still_limits(self, build, at, elapsed):
        limiter = build(FixedWindow(5, per=10))
        assert passed(limiter, 9) == 5
        at(elapsed)
        limiter.update(FixedWindow(5, per=2))
        assert passed(limiter, 100) == 5
        at(elapsed + 2 - US)
        assert passed(limiter, 100) == 0
        at(elapsed + 2)
        assert passed(limiter, 100) == 5


class TestBothStores:
    """One trace, worked out by hand, on each: so they agree with each other."""

    def test_agree_at_exact_multiples_of_the_period(self, build, clock):
        limiter = build(FixedWindow(1, per=10, start="epoch"))
        clock.set(1_700_000_000)
        for _ in range(5):
            assert passed(limiter, 3) == 1
            clock.advance(10 - US)
            assert passed(limiter, 3) == 0
            clock.advance(US)

    def test_agree_at_exact_multiples_of_an_interval(self, build, clock):
        limiter = build(TokenBucket(1, per=10, refill="interval"))
        for _ in range(5):
            assert passed(limiter, 3) == 1
            clock.advance(10 - US)
            assert passed(limiter, 3) == 0
            clock.advance(US)

    def test_agree_at_the_edges_of_a_sliding_windows_blocks(self, build, clock):
        limiter = build(SlidingWindow(1, per=10, precision=1))
        for _ in range(5):
            assert passed(limiter, 3) == 1
            clock.advance(11 - US)
            assert passed(limiter, 3) == 0
            clock.advance(US)

    @pytest.mark.parametrize("local", ["UTC", "Asia/Tokyo", "America/New_York"])
    def test_follow_the_time_zone_that_the_limit_names_and_not_the_machines(self, store, monkeypatch, local):
        monkeypatch.setenv("TZ", local)
        time.tzset()
        try:
            clock = ManualClock(datetime(2027, 1, 15, 12, tzinfo=timezone.utc).timestamp())
            tokyo = FixedWindow(1, per="day", start="calendar", timezone="Asia/Tokyo")
            utc = FixedWindow(1, per="day", start="calendar")
            rows = Limiter([tokyo, utc], name="default", store=store, clock=clock).hit(ID).details
            assert [row.reset_after / 3600 for row in rows] == [3.0, 12.0]
        finally:
            monkeypatch.undo()
            time.tzset()


class TestClients:
    @EACH
    def test_that_lag_behind_get_no_window_of_their_own(self, store, clock, limit):
        limiter = Limiter(limit, name="default", store=store, clock=clock)
        assert passed(limiter, 9) == 2
        for lag in (US, 0.5, 9.0, 3600.0):
            late = Limiter(limit, name="default", store=store, clock=ManualClock(clock.now() - lag))
            assert passed(late, 9) == 0
            assert late.hit(ID).status == "over"

    @EACH
    def test_read_durations_wherever_time_began(self, store, limit):
        resets = set()
        for day in (10_000, 20_000):
            limiter = Limiter(limit, store=store, clock=ManualClock(day * 86_400 + 3), name=f"day-{day}")
            resets.add(limiter.hit(ID, cost=2).reset_after)
        (reset,) = resets
        assert 0 < reset <= 60


class TestIdentifiers:
    def test_may_contain_braces_and_count_on_their_own(self, build):
        limiter = build(FixedWindow(2, per=10))
        for identifier in ("{", "{}", "}{", "a{b}c", "{user}:{42}", "{}{a}", "%s", "a b"):
            assert [bool(limiter.hit(identifier)) for _ in range(5)] == [True] * 2 + [False] * 3
            assert limiter.peek("b", cost=0).remaining == 2
            assert limiter.peek(identifier + "#", cost=0).remaining == 2

    @pytest.mark.parametrize("identifier", ["{}", "a{b}c"])
    def test_with_braces_have_one_key_and_so_one_slot(
        self, redis_store, redis_server, prefix, clock, identifier
    ):
        Limiter(LIMITS, name="default", store=redis_store, clock=clock, penalty=Penalty(5)).hit(identifier)
        with redis_server.client() as raw:
            assert list(raw.scan_iter(f"{prefix}*")) == [f"{prefix}1:default:{identifier}".encode()]


class TestPeek:
    @EACH
    def test_charges_nothing_and_says_what_a_hit_would(self, build, limit):
        limiter = build(limit)
        for expected in ("ok", "ok", "over"):
            peeked = [limiter.peek(ID) for _ in range(3)][-1]
            hit = limiter.hit(ID)
            assert peeked.status == hit.status == expected
            assert (peeked.remaining, peeked.retry_after) == (hit.remaining, hit.retry_after)


class TestInterceptors:
    def test_are_told_of_every_hit_and_of_no_peek(self, build):
        told = []
        limiter = build(FixedWindow(1, per=10), on_decision=told.append)
        limiter.peek(ID)
        decisions = [limiter.hit(ID), limiter.hit(ID)]
        assert told == decisions
        assert [decision.status for decision in told] == ["ok", "over"]
