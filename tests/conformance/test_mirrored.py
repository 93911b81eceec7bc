"""over_limit and its relatives, on stores, URLs and redis-py clients."""

from __future__ import annotations

import pytest
import redis.sentinel
from hypothesis import example, given, settings
from hypothesis import strategies as st

import overlimit
from overlimit import (
    InvalidLimit,
    ManualClock,
    MemoryStore,
    over_limit,
    over_limit_multi,
    over_limit_multi_lua,
    over_limit_sliding_window,
)
from overlimit.mirrored import _limit

NOON = 1_700_000_000.0 // 3600 * 3600


@pytest.fixture
def clock():
    return ManualClock(NOON)


class TestOverLimit:
    def test_true_means_over_the_limit(self, store, clock):
        answers = [over_limit(store, 60, 3, identifiers="a", clock=clock) for _ in range(5)]
        assert answers == [False] * 3 + [True] * 2

    def test_the_window_is_aligned_to_the_epoch(self, store, clock):
        clock.advance(59.0)
        assert [over_limit(store, 60, 1, identifiers="a", clock=clock) for _ in range(2)] == [False, True]
        clock.advance(0.999_999)
        assert over_limit(store, 60, 1, identifiers="a", clock=clock)
        clock.advance(0.000_001)
        assert not over_limit(store, 60, 1, identifiers="a", clock=clock)


@pytest.mark.parametrize("function", [over_limit_multi, over_limit_multi_lua])
class TestOverLimitMulti:
    def test_defaults_are_ten_a_second_120_a_minute_240_an_hour(self, store, clock, function):
        passed = 0
        for _ in range(400):
            passed += not function(store, identifiers=["a"], clock=clock)
            clock.advance(0.05)
        assert passed == 120
        clock.set(NOON + 60)
        assert sum(not function(store, identifiers=["a"], clock=clock) for _ in range(20)) == 10

    def test_a_blocked_user_burns_nothing_of_the_shared_address(self, store, clock, function):
        limits = [(60, 3)]
        for _ in range(3):
            assert not function(store, limits, identifiers=["ip:1", "user:1"], clock=clock)
        for _ in range(10):
            assert function(store, limits, identifiers=["ip:2", "user:1"], clock=clock)
        answers = [function(store, limits, identifiers=["ip:2", "user:2"], clock=clock) for _ in range(4)]
        assert answers == [False] * 3 + [True]


class TestPrecisions:
    @pytest.mark.parametrize(
        ("window", "precision"),
        [
            ((10, 10, 3), 2.5),
            ((10, 10, 20), 10),
            ((10, 10, 10), 10),
            ((10, 10, 1), 1),
            ((86_400, 1000, 1), 86_400 / 4096),
            ((86_400, 1000, 60), 60),
            ((7, 5, 2), 1.75),
            ((1, 5, 0.3), 0.25),
            ((1, 5, 0.0001), 0.00025),
            ((0.000007, 5, 0.000002), 0.000001),
            ((0.000007, 5, 0.000004), 0.000001),
            ((1.000003, 5, 0.5), 1.000003),  # a prime number of microseconds
        ],
    )
    def test_one_that_does_not_divide_becomes_a_finer_one(self, window, precision):
        assert _limit(*window).precision == precision

    @pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "1", True, [1]])
    def test_one_that_is_none_is_refused(self, wrong):
        with pytest.raises(InvalidLimit, match=r"precision( \w+)* must be"):
            over_limit_sliding_window(MemoryStore(), 1, [(10, 10, wrong)], identifiers="a")

    @settings(max_examples=60)
    @given(
        duration=st.integers(1, 30),
        wanted=st.integers(1, 60),
        limit=st.integers(1, 6),
        pauses=st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.7, 7.0]), max_size=120),
    )
    @example(duration=10, wanted=3, limit=2, pauses=[0.9] * 30)
    @example(duration=10, wanted=20, limit=1, pauses=[1.7] * 30)
    def test_no_interval_of_the_duration_ever_has_more_than_the_limit(self, duration, wanted, limit, pauses):
        store, clock, admitted = MemoryStore(), ManualClock(NOON), []
        for pause in pauses:
            if not over_limit_sliding_window(
                store, 1, [(duration, limit, wanted)], identifiers="a", clock=clock
            ):
                admitted.append(round((clock.now() - NOON) * 100))
            clock.advance(pause)
        assert len(admitted) >= min(limit, len(pauses))
        for start in admitted:
            assert sum(start <= time < start + 100 * duration for time in admitted) <= limit
        clock.advance(2 * duration)
        assert not over_limit_sliding_window(
            store, limit, [(duration, limit, wanted)], identifiers="a", clock=clock
        )


class TestConnections:
    def test_a_redis_py_client_lends_its_address_and_not_its_connections(self, redis_server, prefix):
        for client in (redis_server.client(), _tcp_client(redis_server, db=3)):
            with client:
                client.ping()
                before = client.connection_pool._available_connections[:]
                assert not over_limit(client, 3600, 1, identifiers=prefix)
                assert over_limit(client, 3600, 1, identifiers=prefix)
                assert client.connection_pool._available_connections == before
                assert client.exists(f"ol1:over_limit.3600:{prefix}") == 1

    def test_a_client_with_a_credential_provider(self, start_redis):
        import redis

        server = start_redis(password="secret")
        provider = redis.UsernamePasswordCredentialProvider(password="secret")
        with redis.Redis(host="127.0.0.1", port=server.port, credential_provider=provider) as client:
            answers = [over_limit(client, 3600, 1, identifiers="a") for _ in range(2)]
        assert answers == [False, True]

    def test_redis_time_is_the_servers(self, redis_server, prefix, monkeypatch):
        url = redis_server.unix_url() + "&timeout=10"
        limits = [(1000, 1, 100)]
        for redis_time in (True, False):
            name = f"redis_time.{redis_time}"
            options = {"redis_time": redis_time, "identifiers": prefix, "name": name}
            assert not over_limit_sliding_window(url, 1, limits, **options)
            assert over_limit_sliding_window(url, 1, limits, **options)
        with redis_server.client() as client:
            slack = {
                redis_time: client.pttl(f"ol1:redis_time.{redis_time}:{prefix}")
                for redis_time in (True, False)
            }
        assert 58_000 <= slack[False] - slack[True] <= 60_000


def _tcp_client(server, db):
    import redis

    return redis.Redis(host="127.0.0.1", port=server.port, db=db)


@pytest.mark.parametrize("limits", ["5/m", [], [60], [(60,)], [(60, 5, 1, 1)]])
def test_what_are_no_windows_is_an_invalid_limit(store, clock, limits):
    for function in (over_limit_multi, over_limit_sliding_window):
        with pytest.raises((overlimit.InvalidLimit, TypeError)):
            function(store, limits=limits, identifiers="a", clock=clock)


def test_without_a_request_identifiers_must_be_given(store, clock):
    with pytest.raises(TypeError, match="identifiers="):
        over_limit(store, 60, 1, clock=clock)


def test_identifiers_are_those_of_the_flask_request_by_default(store, clock):
    import flask

    app = flask.Flask("test")
    with app.test_request_context(environ_base={"REMOTE_ADDR": "203.0.113.7"}):
        flask.g.user = 42
        assert not over_limit(store, 60, 1, clock=clock)
        assert over_limit(store, 60, 1, clock=clock)
    assert over_limit(store, 60, 1, identifiers="ip:203.0.113.7", clock=clock)
    assert over_limit(store, 60, 1, identifiers="user:42", clock=clock)
    assert not over_limit(store, 60, 1, identifiers="user:43", clock=clock)


def test_a_client_of_a_sentinel_is_refused_rather_than_taken_for_localhost():
    client = redis.sentinel.Sentinel([("127.0.0.1", 1)]).master_for("mymaster")
    with pytest.raises(ValueError, match="Sentinel"):
        over_limit(client, identifiers="user:42")
