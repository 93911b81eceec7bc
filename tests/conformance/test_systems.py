"""Published systems of others (docs/appendix/systems.md): their numbers, and none of their known flaws.

Their longer traces are in tests/vectors, as are those of daily, weekly and other periods of a calendar.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    over_limit_multi,
    over_limit_sliding_window,
)

from .monitoring import commands_during
from .outages import eventually

PAGE = Path(__file__).parents[2] / "docs" / "appendix" / "systems.md"
ID = "user:42"
US = 1e-6
TWO_OF_EACH = [
    FixedWindow(2, per=10),
    FixedWindow(2, per="minute", start="calendar"),
    SlidingWindow(2, per=10, precision=1),
    SlidingLog(2, per=10),
    SlidingWindowCounter(2, per=10),
    TokenBucket(2, per=10),
    TokenBucket(2, per=10, refill="interval"),
    LeakyBucket(1, per=10, capacity=1),
]
EACH = pytest.mark.parametrize("limit", TWO_OF_EACH, ids=lambda limit: f"{limit.algorithm}-{limit.label}")


def passed(limiter: Limiter, calls: int, cost: int = 1) -> int:
    """Make so many calls and return how many were admitted."""
    return sum(bool(limiter.hit(ID, cost=cost)) for _ in range(calls))


class Call(NamedTuple):
    """So many calls at one instant, in seconds from the start, and how many of them pass."""

    second: float
    calls: int
    passed: int
    cost: int = 1


class Trace(NamedTuple):
    """Calls in order, also back in time, under limits of a limiter's arguments."""

    limits: Any
    calls: Sequence[Call | tuple[float, int, int] | tuple[float, int, int, int]]


def full_again_and_again(period: float) -> list[Call]:
    """One passes at once, and one whenever a period is over, to the microsecond."""
    ends = [period * number for number in range(5)]
    return [each for end in ends for each in (Call(end, 3, 1), Call(end + period - US, 3, 0))]


ARTICLE = TokenBucket(5, per=2, burst=10, refill="interval")
TRACES: dict[str, Trace] = {
    # The counter and the interval token bucket of a 2019 article.
    "half-a-second": Trace(FixedWindow(3, per=0.5), [(0, 9, 3), (0.5 - US, 9, 0), (0.5, 9, 3)]),
    # The article's window admits 1961 within 93 ms here.
    "a-boundary": Trace(
        SlidingWindow(1000, per=1), [(0.95, 1000, 1000), (1.043, 1000, 0), (1.98, 1100, 1000)]
    ),
    "whole-intervals": Trace(ARTICLE, [(0, 30, 10), (2 - US, 30, 0), (2, 30, 5)]),
    "phase-of-first-use": Trace(ARTICLE, [(0.75, 30, 10), (3.5, 30, 5), (4.75 - US, 30, 0), (4.75, 30, 5)]),
    "never-more-than-full": Trace(ARTICLE, [(0, 3, 3), (1_000_001, 30, 10)]),
    "intervals-go-back": Trace(
        ARTICLE, [(100, 4, 4), (99, 1, 1), (50, 1, 1), (-100_000, 1, 1), (100, 30, 3)]
    ),
    # FireflySoft.RateLimit (C#).
    "at-most-ten": Trace(
        TokenBucket(10, per=1, refill="interval"), [(0, 8, 8), (1, 18, 10), (2, 18, 10), (100.5, 18, 10)]
    ),
    "small-and-slow": Trace(
        TokenBucket(1, per=10, refill="interval"), [(second, 3, second % 10 == 0) for second in range(30)]
    ),
    "multiples-of-a-period": Trace(FixedWindow(1, per=10, start="epoch"), full_again_and_again(10)),
    "multiples-of-an-interval": Trace(TokenBucket(1, per=10, refill="interval"), full_again_and_again(10)),
    "edges-of-blocks": Trace(SlidingWindow(1, per=10, precision=1), full_again_and_again(11)),
    # RedisTokenBucket (Java).
    "tokens-go-back": Trace(
        TokenBucket(2, burst=100), [(100, 1, 1, 60), (50, 1, 1, 20), (-1000, 1, 1, 10), (100, 20, 10)]
    ),
    "by-the-microsecond": Trace(
        TokenBucket(100, burst=100), [(0.999999, 300, 100), (1, 300, 0), (1.01, 300, 1)]
    ),
    # periodlimit and tokenlimit of go-zero (Go).
    "one-and-a-half-seconds": Trace(FixedWindow(5, per=1.5), [(0, 9, 5), (1.5 - US, 9, 0), (1.5, 9, 5)]),
    "a-node-that-lags": Trace(TokenBucket(5), [(0, 9, 5), (-1, 9, 0), (0.2 - US, 9, 0), (0.2, 9, 1)]),
    **{
        f"rate-{rate}-burst-{burst}": Trace(
            TokenBucket(rate, burst=burst), [(0, 50, burst), (100, 50, burst)]
        )
        for rate, burst in [(10, 2), (1000, 1), (3, 1), (1_000_000, 10)]
    },
    # over_limit, after Josiah Carlson (Python). The 120 are in the last block of their minute, which leaves a
    # minute after its end.
    "around-the-full-minute": Trace(
        "120/minute", [(39.95, 300, 120), (40.05, 300, 0), (100 - US, 300, 0), (100, 300, 120)]
    ),
    "precision-below-a-second": Trace(
        SlidingWindow(10, per=1, precision=0.125), [(0, 30, 10), (1.125 - US, 30, 0), (1.125, 30, 10)]
    ),
    "duration-below-a-second": Trace(
        [SlidingWindow(10, per=0.5, precision=0.125), FixedWindow(10, per=0.25, start="epoch")],
        [(0, 30, 10), (0.625 - US, 30, 0), (0.625, 30, 10)],
    ),
    "lagging-clients-take-nothing-for-ever": Trace(
        SlidingWindow(10, per=10, precision=1),
        [(0, 1, 1), (-30, 5, 5), (0, 30, 4), (11 - US, 30, 0), (11, 30, 10)],
    ),
    "lagging-clients-get-nothing-more": Trace(
        SlidingWindow(10, per=10, precision=1),
        [(0, 30, 10), *((-lag, 30, 0) for lag in (0.001, 1, 9, 10, 11, 3600))],
    ),
    "weights-of-nothing": Trace(
        SlidingWindow(10, per=10, precision=1), [(0, 20, 20, 0), (0, 3, 2, 4), (0, 20, 20, 0), (0, 20, 2)]
    ),
    "the-same-limit-twice": Trace([(60, 10), (60, 10)], [(0, 30, 10)]),
    "the-same-sliding-limit-twice": Trace([(60, 10, 1), (60, 10, 1)], [(0, 30, 10)]),
    "waves-are-spread": Trace("10/second; 120/minute", [(second, 200, 10) for second in range(0, 24, 2)]),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_trace(build, at, trace):
    limiter = build(trace.limits)
    for call in (Call(*each) for each in trace.calls):
        at(call.second)
        assert passed(limiter, call.calls, call.cost) == call.passed, call


def test_the_page_names_traces_that_there_are():
    assert set(re.findall(r"::test_a_trace\[([\w-]+)\]", PAGE.read_text("utf-8"))) <= set(TRACES)


# Of the article: 10 at first, 10 of a full bucket at 60.1 s, and then, as the clock that is ahead moves on to
# 69.9 s, 5 at 62.1 s, 64.1 s, 66.1 s and 68.1 s. Of the Java: 100 at first and 100 a hundred seconds later.
@pytest.mark.parametrize(
    ("bucket", "seconds", "tokens"),
    [
        (ARTICLE, [step / 10 + 60 * (step % 2) for step in range(100)], 10 + 10 + 4 * 5),
        (TokenBucket(2, burst=100), [100 * (step % 2) for step in range(50)], 100 + 100),
    ],
    ids=["intervals", "continuous"],
)
def test_clocks_that_disagree_make_no_tokens(build, at, bucket, seconds, tokens):
    limiter, taken = build(bucket), 0
    for second in seconds:
        at(second)
        taken += passed(limiter, 110)
    assert taken == tokens


@EACH
def test_clients_that_lag_behind_get_no_window_of_their_own(store, clock, limit):
    limiter = Limiter(limit, name="default", store=store, clock=clock)
    assert passed(limiter, 9) == 2
    for lag in (US, 0.5, 9.0, 3600.0):
        late = Limiter(limit, name="default", store=store, clock=ManualClock(clock.now() - lag))
        assert passed(late, 9) == 0
        assert late.hit(ID).status == "over"


@EACH
def test_refusals_of_a_larger_cost_starve_nobody(build, clock, limit):
    limiter = build(limit)
    assert passed(limiter, 1) == 1
    assert passed(limiter, 50, cost=2) == 0
    assert passed(limiter, 5) == 1
    clock.advance(limiter.peek(ID, cost=2).retry_after)
    assert passed(limiter, 1, cost=2) == 1


def test_refusals_say_whether_the_limit_or_a_lock_refuses(build, at):
    limiter = build(FixedWindow(1, per=1), penalty=Penalty(5))
    assert [limiter.hit(ID).status for _ in range(3)] == ["ok", "over", "locked"]
    at(5 - US)
    assert (limiter.hit(ID).status, limiter.hit(ID).retry_after) == ("locked", US)
    at(5)
    assert limiter.hit(ID).status == "ok"


def test_refusals_become_one_retry_after_header_that_suffices_for_all_rules(clock):
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


@pytest.mark.parametrize("elapsed", [2.0, 5.0, 9.0])
def test_a_window_that_is_narrowed_when_it_would_be_over_still_limits(build, at, elapsed):
    limiter = build(FixedWindow(5, per=10))
    assert passed(limiter, 9) == 5
    at(elapsed)
    limiter.update(FixedWindow(5, per=2))
    assert passed(limiter, 100) == 5
    at(elapsed + 2 - US)
    assert passed(limiter, 100) == 0
    at(elapsed + 2)
    assert passed(limiter, 100) == 5


@pytest.mark.parametrize("local", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_the_time_zone_is_the_one_that_the_limit_names_and_not_the_machines(store, monkeypatch, local):
    monkeypatch.setenv("TZ", local)
    time.tzset()
    try:
        clock = ManualClock(datetime(2027, 1, 15, 12, tzinfo=UTC).timestamp())
        tokyo = FixedWindow(1, per="day", start="calendar", timezone="Asia/Tokyo")
        utc = FixedWindow(1, per="day", start="calendar")
        rows = Limiter([tokyo, utc], name="default", store=store, clock=clock).hit(ID).details
        assert [row.reset_after / 3600 for row in rows] == [3.0, 12.0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_waits_after_a_debt_are_0_0_and_12_seconds_and_suffice(build, at):
    limiter = build(TokenBucket(0.5, burst=1, debt=6))
    assert [limiter.hit(ID, cost=cost).retry_after for cost in (1, 6, 2)] == [0.0, 0.0, 12.0]
    at(12 - US)
    assert limiter.hit(ID, cost=2).retry_after == US
    at(12)
    assert limiter.hit(ID, cost=2)


def test_a_debt_without_bound_lets_any_size_pass_once(build, at):
    limiter = build(TokenBucket(0.5, burst=1, debt=math.inf))
    assert limiter.hit(ID, cost=1_000_000)
    assert limiter.hit(ID).retry_after == (1_000_000 - 1) / 0.5
    at((1_000_000 - 1) / 0.5)
    assert limiter.hit(ID)


@pytest.mark.parametrize("rate", [0.29, 0.1, 0.7, 1 / 3, Fraction(1, 3), 2.5, 1e-6])
def test_waits_for_fractional_rates_suffice_and_are_not_a_microsecond_too_long(build, clock, rate):
    limiter = build(TokenBucket(rate, burst=100))
    assert limiter.hit(ID, cost=100)
    for cost in (1, 29, 100):
        wait = limiter.peek(ID, cost=cost).retry_after
        assert wait == math.ceil(cost / Fraction(str(rate)) * 10**6) / 1e6
    clock.advance(wait - US)
    assert not limiter.hit(ID, cost=100)
    clock.advance(US)
    assert limiter.hit(ID, cost=100)


class TestOverLimit:
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

    @pytest.mark.parametrize(
        ("limit", "entries", "apart"),
        [
            (SlidingWindow(99_999, per=4096, precision=1), 4097, 1),
            (SlidingLog(10_000, per=4096), 8_100, 0.001),
        ],
        ids=lambda each: getattr(each, "algorithm", ""),
    )
    def test_thousands_of_stale_entries_are_no_error_and_free_everything(
        self, build, clock, limit, entries, apart
    ):
        limiter, most = build(limit), limit.limit
        for _ in range(entries):
            assert limiter.hit(ID)
            clock.advance(apart)
        clock.advance(limiter.peek(ID, cost=0).reset_after - US)
        assert limiter.peek(ID, cost=0).remaining == most - 1
        assert passed(limiter, 3) == 3
        assert limiter.peek(ID, cost=0).remaining == most - 4
        clock.advance(86_400)
        assert limiter.peek(ID, cost=0).remaining == most
        assert limiter.hit(ID).remaining == most - 1


class TestInRedis:
    LIMITS = (FixedWindow(3, per=0.5), TokenBucket(3, per=0.5, refill="interval"), SlidingWindow(3, per=0.5))
    EACH = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)

    @pytest.fixture
    def raw(self, redis_server):
        with closing(redis_server.client()) as client:
            yield client

    @pytest.fixture
    def key(self, prefix):
        return f"{prefix}1:default:{ID}"

    @pytest.fixture
    def own_server(self, start_redis):
        return start_redis()

    @pytest.fixture
    def build(self, redis_store, clock):
        return lambda limits: Limiter(limits, name="default", store=redis_store, clock=clock)

    @pytest.mark.parametrize(
        ("limits", "cost", "least", "most"),
        [
            *((limit, 1, 1, 3000) for limit in LIMITS),
            (TokenBucket(1, per=10, burst=3, refill="interval"), 3, 30_000, 35_000),
            (FixedWindow(5, per=1.5), 1, 1001, 3500),
            ([SlidingWindow(10, 0.5, precision=0.125), FixedWindow(10, 0.25, start="epoch")], 1, 1, 2000),
            *(
                (TokenBucket(rate, burst=burst), burst, 1, 3000)
                for rate, burst in [(10, 2), (1000, 1), (3, 1), (1_000_000, 10)]
            ),
        ],
        ids=str,
    )
    def test_a_key_outlives_its_record_and_leaves(self, redis_store, raw, key, limits, cost, least, most):
        assert Limiter(limits, name="default", store=redis_store).hit(ID, cost=cost)
        assert least <= raw.pttl(key) <= most

    @pytest.mark.parametrize("rate", [0.29, Fraction(1, 3), 0.7, 3.7, 1e-6, 1_000_000, 3_000_000])
    def test_a_time_to_live_is_whole_and_covers_the_refill_whatever_the_rate(
        self, redis_store, raw, key, rate
    ):
        limiter = Limiter(TokenBucket(rate, burst=10), name="default", store=redis_store)
        for _ in range(5):
            reset = limiter.hit(ID).reset_after
            assert max(1, reset * 1000) <= raw.pttl(key) <= reset * 1000 + 2000

    @pytest.mark.parametrize("rate", [1_000_000, 3_000_000])
    def test_a_bucket_that_refills_within_a_microsecond_is_not_deleted(self, build, rate):
        assert passed(build(TokenBucket(rate, burst=1)), 1000) == 1

    @EACH
    def test_a_key_that_lost_its_time_to_live_blocks_nobody(self, build, raw, key, clock, limit):
        limiter = build(limit)
        assert passed(limiter, 9) == 3
        assert raw.persist(key)
        assert passed(limiter, 9) == 0
        clock.advance(0.6)
        assert passed(limiter, 9) == 3
        assert raw.pttl(key) > 0

    @EACH
    def test_all_that_is_known_of_an_identifier_is_in_one_key_so_none_can_be_lost_alone(
        self, build, raw, prefix, limit
    ):
        limiter = build(limit)
        assert passed(limiter, 9) == 3
        (only,) = raw.scan_iter(f"{prefix}*")
        raw.delete(only)
        assert passed(limiter, 9) == 3

    def test_a_script_touches_the_keys_it_declares_and_no_others(self, own_server, clock):
        store = RedisStore(own_server.unix_url(), timeout=10.0)
        limiter = Limiter(list(self.LIMITS), name="default", store=store, clock=clock)
        limiter.hit("warm", "up")
        seen = commands_during(own_server, lambda: [limiter.hit("ip:1", ID) for _ in range(5)])
        assert len(seen.of_clients) == 5
        assert seen.touched_keys == seen.declared_keys == {"ol1:default:ip:1", f"ol1:default:{ID}"}

    @pytest.mark.parametrize("gap", [0, 1, 60, 86_400, 31 * 86_400])
    def test_a_gap_of_any_length_costs_one_read_and_one_write(self, own_server, clock, gap):
        store = RedisStore(own_server.unix_url(), timeout=10.0)
        limiter = Limiter(
            SlidingWindow(9999, per=3600, precision=1), name="default", store=store, clock=clock
        )
        for _ in range(10):
            assert limiter.hit(ID)
            clock.advance(1)
        clock.advance(gap)
        seen = commands_during(own_server, lambda: limiter.hit(ID))
        assert [command[0] for command in seen.of_scripts] == ["GET", "SET"]
        assert len(seen.of_clients) == 1
        with closing(own_server.client()) as raw:
            assert raw.strlen(f"ol1:default:{ID}") == 52 + 16 * (10 if gap < 3600 else 0)

    def test_a_changed_precision_is_another_limit_and_the_old_record_goes_when_it_expires(
        self, build, raw, key, clock
    ):
        fine, coarse = (build(SlidingWindow(10, per=10, precision=precision)) for precision in (1, 2))
        assert passed(fine, 30) == 10
        assert raw.strlen(key) == 52
        assert passed(coarse, 30) == 10
        assert raw.strlen(key) == 52 + 44
        clock.advance(12)
        assert passed(coarse, 30) == 10
        assert raw.strlen(key) == 52


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
