"""A Redis that has no room left: what can be answered is, the rest is an error that says what to do."""

from __future__ import annotations

from contextlib import closing

import pytest

from overlimit import (
    Limiter,
    ManualClock,
    Penalty,
    RedisStore,
    StoreError,
    StoreUnavailable,
    TokenBucket,
)

from .all_algorithms import CALENDAR, of_each_algorithm

ALL = of_each_algorithm(3, per=60) | CALENDAR


@pytest.fixture
def server(start_redis):
    return start_redis()


@pytest.fixture
def raw(server):
    with closing(server.client()) as client:
        yield client


@pytest.fixture
def fill(raw):
    """Return a function that leaves the server no room for anything that is written."""

    def filled() -> None:
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", 1)

    return filled


@pytest.fixture
def empty(raw):
    """Return a function that makes room again."""
    return lambda: raw.config_set("maxmemory", 0)


@pytest.fixture
def build(server, prefix):
    store, clock = RedisStore(server.unix_url(), timeout=10.0, prefix=prefix), ManualClock(1_700_000_000)
    return lambda limits, **options: Limiter(
        limits, **{"name": "default", "store": store, "clock": clock, **options}
    )


@pytest.fixture
def limiters(build):
    """A limiter for each limit."""
    return [build(limit, name=name) for name, limit in ALL.items()]


class TestFull:
    def test_a_hit_is_an_error_that_says_what_to_do_and_changes_nothing(
        self, limiters, raw, prefix, fill, empty
    ):
        for limiter in limiters:
            limiter.hit("known")
        keys = {key: raw.get(key) for key in raw.scan_iter(f"{prefix}*")}
        fill()
        for limiter in limiters:
            for who in (["known"], ["new"], ["known", "new"], ["new", "known"]):
                with pytest.raises(StoreUnavailable, match="maxmemory") as caught:
                    limiter.hit(*who)
                assert isinstance(caught.value, StoreError)
                assert not caught.value.maybe_charged
        assert {key: raw.get(key) for key in raw.scan_iter(f"{prefix}*")} == keys
        empty()
        for limiter in limiters:
            assert [row.remaining for row in limiter.hit("known", "new").details] == [1, 2]

    def test_peeks_refusals_and_what_never_fits_and_cost_zero_are_answered(self, limiters, fill):
        for limiter in limiters:
            limiter.hit("a", cost=2)
            limiter.hit("b", cost=3)
        fill()
        for limiter in limiters:
            assert limiter.peek("a").remaining == 0
            assert limiter.peek("a", cost=2).status == "over"
            assert limiter.hit("a", cost=0).remaining == 1
            assert limiter.hit("a", cost=2**53).status == "never"
            assert limiter.peek("new").remaining == 2
            assert limiter.hit("b").status == "over"
            assert limiter.hit("b", "new").status == "over"

    def test_a_refusal_that_would_lock_is_an_error_and_locks_nobody(self, build, fill, empty):
        limiter = build(TokenBucket(3, 60), penalty=Penalty(9))
        limiter.hit("a", cost=3)
        fill()
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            limiter.hit("a")
        empty()
        assert limiter.peek("a", cost=0).status == "ok"
        assert limiter.hit("a").retry_after == 20.0

    def test_locks_and_refunds_are_errors_that_say_what_to_do(self, build, fill, empty):
        limiter = build(TokenBucket(3, 60))
        decision = limiter.hit("a")
        fill()
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            limiter.lock("a", 5)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            limiter.refund(decision)
        empty()
        assert limiter.peek("a", cost=0).remaining == 2
        limiter.lock("a", 5)
        assert limiter.hit("a").status == "locked"

    def test_a_reset_makes_room(self, build, raw, prefix, fill):
        limiter = build(TokenBucket(3, 60))
        limiter.hit("a", "b")
        fill()
        limiter.reset("a")
        assert [key.decode() for key in raw.scan_iter(f"{prefix}*")] == [f"{prefix}1:default:b"]
        limiter.reset_all()
        assert list(raw.scan_iter(f"{prefix}*")) == []
