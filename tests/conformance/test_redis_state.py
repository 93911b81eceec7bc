"""What is in Redis, what happens when it is lost, damaged or foreign, and when the server does not answer."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest

from overlimit import FixedWindow, Limiter, RedisStore, SlidingWindow, TokenBucket
from overlimit.errors import StoreConfigError, StoreTimeout

LIMITS = [FixedWindow(3, 60), SlidingWindow(3, 60), TokenBucket(3, 60)]
EACH = pytest.mark.parametrize(
    "limit",
    [
        *LIMITS,
        FixedWindow(3, 1e-6),
        FixedWindow(5, 1.5),
        TokenBucket(0.29, burst=10),
        TokenBucket(1e-6, burst=10),
        TokenBucket(3_000_000, burst=10),
        TokenBucket(1, per=10, burst=3, refill="interval"),
    ],
    ids=lambda limit: f"{limit.algorithm}-{limit.label}",
)
PATIENCE = 10.0


@pytest.fixture
def store(redis_store):
    return redis_store


class TestKeys:
    def test_calls_that_charge_nothing_write_nothing(self, build, raw, prefix):
        limiter = build(LIMITS)
        limiter.peek("a")
        limiter.hit("a", cost=0)
        limiter.hit("a", cost=9)
        assert list(raw.scan_iter(f"{prefix}*")) == []


class TestTimeToLive:
    @EACH
    def test_every_key_expires_after_its_record_and_the_slack_of_an_injected_clock(
        self, build, raw, key, limit
    ):
        reset = build(limit).hit("a", cost=3).reset_after
        assert reset + 1 <= raw.pttl(key) / 1000 <= reset + 3_600 + 1

    @EACH
    def test_every_key_expires_soon_after_its_record_by_the_servers_own_clock(self, build, raw, key, limit):
        reset = build(limit, clock=None).hit("a", cost=3).reset_after
        assert reset <= raw.pttl(key) / 1000 <= reset + 10

    def test_the_longest_lived_record_decides(self, build, raw, key):
        build([FixedWindow(3, 0.001), FixedWindow(3, 5000), FixedWindow(3, 7)], clock=None).hit("a")
        assert 5000 <= raw.pttl(key) / 1000 <= 5010

    def test_a_bucket_that_fills_for_centuries_still_has_one(self, build, raw, key):
        limiter = build(TokenBucket(1, per=2**49 / 1e6, burst=15))
        limiter.hit("a", cost=15)
        assert raw.pttl(key) > 10**12
        assert not limiter.hit("a")


class TestScripts:
    def test_their_number_is_bounded_by_policies_not_by_traffic(self, start_redis, clock):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=PATIENCE)
        with closing(server.client()) as raw:
            for most in range(1, 30):
                limiter = Limiter(
                    [SlidingWindow(most, 60 + most), TokenBucket(most)],
                    name="default",
                    store=store,
                    clock=clock,
                )
                for identifiers in (["a"], ["a", "b"], [f"id:{i}" for i in range(16)]):
                    limiter.hit(*identifiers)
                    limiter.peek(*identifiers, cost=most)
                    limiter.reset(*identifiers)
            assert raw.info("memory")["number_of_cached_scripts"] <= 4


class TestForeignValues:
    """A value that isn't ours is as if absent, and overwritten: no error, no lock-out, never unlimited."""

    @pytest.mark.parametrize("excess", [1, 8, 15])
    def test_a_record_with_a_part_of_a_cell_is_as_if_there_were_nothing(self, build, raw, key, excess):
        limiter = build(SlidingWindow(3, per=60))
        limiter.hit("a", cost=3)
        value = raw.get(key)
        size = int.from_bytes(value[16:20], "little") + excess
        raw.set(key, value[:16] + size.to_bytes(4, "little") + value[20:] + b"x" * excess)
        assert limiter.peek("a", cost=0).remaining == 3
        assert [bool(limiter.hit("a")) for _ in range(5)] == [True] * 3 + [False] * 2

    def test_a_fixed_window_of_another_length_is_as_if_there_were_nothing(self, build, raw, key):
        limiter = build(FixedWindow(3, per=1000))
        limiter.hit("a", cost=3)
        value = raw.get(key)
        end = int.from_bytes(value[36:44], "little") + 1_000_000
        raw.set(key, value[:36] + end.to_bytes(8, "little") + value[44:], keepttl=True)
        assert limiter.hit("a", cost=3)
        assert limiter.hit("a").retry_after == 1000.0
        assert 0 < raw.pttl(key) <= (1000 + 3600) * 1000


class TestClock:
    def test_without_a_clock_the_servers_time_decides(self, build, raw):
        limiter = build(FixedWindow(3, 60), clock=None)
        before, decision, after = server_time(raw), limiter.hit("a"), server_time(raw)
        assert before <= decision.time <= after


class TestAddresses:
    @pytest.mark.parametrize(
        ("url", "password", "db"), [("tcp_url", "s3cret", 3), ("unix_url", "s3cret", 3), ("tcp_url", None, 0)]
    )
    def test_transport_password_and_db_are_those_of_the_url(self, start_redis, prefix, url, password, db):
        server = start_redis(password=password)
        limiter = Limiter(
            LIMITS,
            name="default",
            store=RedisStore(getattr(server, url)(db), timeout=PATIENCE, prefix=prefix),
        )
        assert limiter.hit("a").remaining == 2
        with closing(server.client(db)) as raw:
            assert raw.exists(f"{prefix}1:default:a")
        with closing(server.client(1)) as elsewhere:
            assert elsewhere.dbsize() == 0

    def test_building_connects_to_nothing(self, start_redis):
        server = start_redis()
        server.stop()
        Limiter(LIMITS, name="default", store=RedisStore(server.tcp_url()))
        Limiter(LIMITS, name="default", store=RedisStore("redis://nowhere.invalid:1"))

    def test_a_db_that_does_not_exist_is_a_configuration_error(self, redis_server):
        store = RedisStore(redis_server.unix_url(db=99), timeout=PATIENCE)
        with pytest.raises(StoreConfigError):
            Limiter(LIMITS, name="default", store=store).hit("a")


class TestServerTrouble:
    def test_the_timeout_is_100_ms_by_default(self):
        with socket.create_server(("127.0.0.1", 0)) as black_hole:
            url = f"redis://127.0.0.1:{black_hole.getsockname()[1]}/0"
            started = time.monotonic()
            with pytest.raises(StoreTimeout):
                Limiter(LIMITS, name="default", store=RedisStore(url)).hit("a")
            assert 0.09 <= time.monotonic() - started < 1.0


def server_time(raw) -> float:
    seconds, micros = raw.time()
    return (seconds * 1_000_000 + micros) / 1e6
