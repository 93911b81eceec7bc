"""Published systems of others (docs/appendix/systems.md): their numbers, and none of their known flaws.

Their longer traces are in tests/vectors, as are those of daily, weekly and other periods of a calendar.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    RedisStore,
    SlidingWindow,
    TokenBucket,
    over_limit_multi,
)

from .monitoring import commands_during

PAGE = Path(__file__).parents[2] / "docs" / "appendix" / "systems.md"
ID = "user:42"
US = 1e-6


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
    "rate-10-burst-2": Trace(TokenBucket(10, burst=2), [(0, 50, 2), (100, 50, 2)]),
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
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_trace(build, at, trace):
    limiter = build(trace.limits)
    for call in (Call(*each) for each in trace.calls):
        at(call.second)
        assert passed(limiter, call.calls, call.cost) == call.passed, call


def test_the_page_names_traces_that_there_are():
    assert set(re.findall(r"::test_a_trace\[([\w-]+)\]", PAGE.read_text("utf-8"))) <= set(TRACES)


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


class TestOverLimit:
    def test_without_a_precision_the_functions_admit_240_in_a_tenth_of_a_second(self, store):
        clock, admitted = ManualClock(1_700_000_040 - 0.05), 0
        for _ in range(2):
            calls = [over_limit_multi(store, [(60, 120)], identifiers=ID, clock=clock) for _ in range(300)]
            admitted += calls.count(False)
            clock.advance(0.1)
        assert admitted == 240


class TestInRedis:
    LIMITS = (FixedWindow(3, per=0.5), TokenBucket(3, per=0.5, refill="interval"), SlidingWindow(3, per=0.5))

    @pytest.fixture
    def own_server(self, start_redis):
        return start_redis()

    @pytest.fixture
    def store(self, redis_store):
        return redis_store

    @pytest.mark.parametrize("rate", [1_000_000, 3_000_000])
    def test_a_bucket_that_refills_within_a_microsecond_is_not_deleted(self, build, rate):
        assert passed(build(TokenBucket(rate, burst=1)), 1000) == 1

    def test_all_that_is_known_of_an_identifier_is_in_one_key_so_none_can_be_lost_alone(
        self, build, raw, prefix
    ):
        limiter = build(list(self.LIMITS))
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
